-- Nothing to do: without hooks the triggers do nothing.
SELECT 1;
