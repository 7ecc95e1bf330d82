"""Pure decisions: functions of values. No clock, chance, socket, database or log in here."""
