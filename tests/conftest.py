"""What all tests share."""

import signal

# A shell starts what runs in the background with Ctrl-C ignored, and children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
