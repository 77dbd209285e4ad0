"""Where deploy meets ssh, engines and sockets."""
