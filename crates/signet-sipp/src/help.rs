//! `-h`.

pub(crate) const TEXT: &str = "\
Usage: sipp HOST[:PORT] [OPTIONS]     (no host for a scenario that is called)

Plays SIPp's scenarios with SIPp's options. What is not listed is refused. What
SIPp passes over in a scenario without a word is told on stderr.

Scenario
  -check              only reads the scenario and its files, and tells what is wrong
  -no_media           passes over actions with media
  -sf FILE            the scenario
  -sn uac|uas         a built-in one (uac where neither is given)
  -sd uac|uas         prints a built-in one
  -inf FILE           injection file; more than one may be given
  -infindex FILE N    index of a file by its field N, for <lookup>; FILE as with -inf,
                      or without its folders
  -ip_field N         the field with the local address (-t ui)
  -key NAME VALUE     the keyword [NAME]
  -set NAME VALUE     a global variable
  -s NAME             [service]
  -au, -ap, -auth_uri user, password and URI in answers to challenges
  -base_cseq N, -cid_str TEXT, -dynamicStart N, -dynamicMax N, -dynamicStep N

Sockets
  -t u1|un|ui|t1|tn|l1|ln   UDP, TCP or TLS; one for all, per call, per address
  -i HOST, -p PORT    local address and port; without -i all addresses are listened on
  -bind_local         only the one that messages name
  -mi HOST, -mp PORT  what media keywords say; media is not sent
  -rtp_echo           sends back what comes to the media port, and to the one two above
  -rsa HOST[:PORT]    where to send to instead of the remote host; on the called side, over
                      UDP, instead of to whom has sent
  -max_reconnect N    how often the connection of all calls (t1, l1) may be opened anew; -1
                      for no bound. Without it not once: the run ends with 255
  -max_socket N, -reconnect_close true|false, -reconnect_sleep TIME, -buff_size BYTES
  -tls_cert FILE, -tls_key FILE, -tls_ca FILE, -tls_crl FILE, -tls_version 1.2|1.3

Other instances (<sendCmd>, <recvCmd>)
  -3pcc HOST:PORT     the only other one: it listens there if its first command is
                      one that it expects, else the other does
  -slave_cfg FILE     names and addresses of all: a line NAME;HOST:PORT for each
  -master NAME, -slave NAME   which of them this one is

Load
  -r N, -rp TIME      calls per period (10 per second)
  -m N                ends after N calls
  -l N                calls at a time, 0 for no limit; without it as many as are begun
                      in three times the pauses of a call, -d or a second, whichever
                      is longest, and as many as that is at each new rate. What falls
                      due past it is dropped
  -users N            that many calls all the time, up to 1000000; then no -l
  -d TIME             length of pauses without a time of their own
  -rate_increase N, -rate_interval TIME, -rate_max N, -no_rate_quit, -rate_scale N
  -timeout TIME, -timeout_error, -recv_timeout TIME
  -send_timeout TIME  how long connecting may take

Behaviour
  -aa                 answers INFO, NOTIFY, OPTIONS and UPDATE
  -nr                 no retransmissions
  -nd                 -default_behaviors none
  -default_behaviors LIST   only these: all, none, bye, abortunexp, pingreply; all but
                      none with - to turn off what stands before
  -max_retrans N, -max_invite_retrans N, -max_non_invite_retrans N, -T2 TIME
  -lost PERCENT, -pause_msg_ign, -callid_slash_ign, -deadcall_wait TIME

Files (NAME_PID_...)
  -trace_stat, -fd TIME, -stf FILE, -stat_delimiter TEXT
  -trace_msg, -trace_shortmsg, -trace_err, -trace_logs, -trace_error_codes,
  -trace_counts, -trace_screen, -trace_rtt, -rtt_freq N
  -message_file, -shortmessage_file, -error_file, -log_file, -screen_file FILE

Run
  -bg                 in the background
  -nostdin            reads no keys; else q, Q, +, -, *, /, p, s and 1 to 9 are heard
  -f TIME             how often the screen is drawn

Signals: USR1 ends softly, twice hard; TERM and INT end at once; USR2 writes the screens.

Exit codes: 0 all calls went through; 1 one failed, or the command line or the
scenario is wrong; 97 ended by stop_now, or by -timeout, a signal or a key before a
call went through (a called side that nobody called ends with 0);
99 gone to the background, or only shown something (-h, -v, -sd); 254 a socket could
not be bound; 255 fatal, or all calls went through and a file could not be written or
a command of <exec> not be run.
";
