"""The client's side: connections, requests on their way, collective rounds."""
