-- There is no hook any more: jobs need not be watched.
DROP TRIGGER IF EXISTS hooks_on_accept;
DROP TRIGGER IF EXISTS hooks_on_change;
