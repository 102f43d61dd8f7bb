#!/usr/bin/env python3
# terminal.py - runs a program on a terminal of its own and prints what it showed.
#
#     terminal.py COLUMNS PROGRAM [ARGUMENT]...
#
# COLUMNS 0: the terminal does not say how wide it is. Exit status: that of the program; 128 + N when signal N ended it.
import fcntl, os, pty, struct, sys, termios

pid, terminal = pty.fork()
if pid == 0:
    size = struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0)
    fcntl.ioctl(1, termios.TIOCSWINSZ, size)
    os.execv(sys.argv[2], sys.argv[2:])
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:                                     # Linux says so when the program has closed its end
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
sys.stdout.flush()
status = os.waitpid(pid, 0)[1]
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
