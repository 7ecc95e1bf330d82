-- A post that was not sent on its way gets another hour; a draft is signed when it can be.
UPDATE jobs SET due_at = :due_at, expires_at = :expires_at,
  stage_at = CASE state WHEN 'scheduled' THEN :due_at ELSE stage_at END
WHERE id = :job AND state IN ('scheduled', 'pending-sign');
