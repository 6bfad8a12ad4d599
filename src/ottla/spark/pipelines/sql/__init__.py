"""SQL files of pipelines: `text` splits and scans SQL, `files` reads the statements."""
