"""The jobs behind the commands: functions of a Spark session, without a command line."""
