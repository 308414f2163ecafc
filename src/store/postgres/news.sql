-- Was anything committed since snapshot $1? $2 its base (as in probe.sql). And the snapshot now.
SELECT {news} AS news, pg_current_snapshot()::text
