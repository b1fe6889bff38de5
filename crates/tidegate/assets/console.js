// What the console's pages share. Everything works without it; with it, live parts follow the server.
