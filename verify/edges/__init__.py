"""Where verification touches the outside: ssh, the API and the pytest process."""
