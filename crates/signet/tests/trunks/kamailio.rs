//! Kamailio as a provider: it wants a password for everything, has who is registered, and
//! calls him.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::support::{Running, wait_for_place};

/// Where it is: phones are elsewhere.
const HOST: &str = "127.0.0.2";

/// A Kamailio that ends with this value.
pub(crate) struct Kamailio {
    process: Running,
    pub(crate) addr: SocketAddr,
    log: std::path::PathBuf,
}

impl Kamailio {
    /// Starts it with the account 4930100 and that password; behind it is who listens at `far`.
    /// Each nonce is good once.
    pub(crate) fn start(
        folder: &Path,
        port: u16,
        realm: &str,
        password: &str,
        far: SocketAddr,
    ) -> Self {
        let at = |file: &str| folder.join(file).display().to_string();
        let modules = [
            "kex",
            "tm",
            "sl",
            "rr",
            "pv",
            "textops",
            "siputils",
            "xlog",
            "usrloc",
            "registrar",
            "auth",
        ];
        let modules: String = modules
            .iter()
            .map(|name| format!("loadmodule \"{name}.so\"\n"))
            .collect();
        let far_port = far.port();
        let config = format!(
            r#"#!KAMAILIO
debug=1
log_stderror=yes
children=1
auto_aliases=no
disable_tcp=yes
listen=udp:{HOST}:{port}
alias="provider.example"
{modules}
modparam("auth", "one_time_nonce", 1)
modparam("usrloc", "db_mode", 0)
request_route {{
  if (is_method("CANCEL")) {{
    if (t_check_trans()) {{ t_relay(); }}
    exit;
  }}
  if (has_totag()) {{
    # The ACK to a challenge bears the Routes of its request (RFC 3261 17.1.1.3) and ends here.
    if (is_method("ACK")) {{
      t_check_trans();
    }} else if ($sp != {far_port}) {{
      route(PROVE);
    }}
    if (loose_route()) {{ t_relay(); exit; }}
    if (is_method("ACK")) {{
      if (t_check_trans()) {{ t_relay(); }}
      exit;
    }}
    sl_send_reply("404", "Not Here");
    exit;
  }}
  t_check_trans();
  if (is_method("REGISTER")) {{
    if (!pv_www_authenticate("{realm}", "{password}", "0")) {{
      $var(rc) = $rc;
      # None yet, or a nonce that has been used.
      if ($var(rc) == -4 || $var(rc) == -6) {{
        www_challenge("{realm}", "17");
        exit;
      }}
      if ($var(rc) != -5) {{ xlog("L_ALERT", "REFUSED REGISTER $var(rc)\n"); }}
      www_challenge("{realm}", "1");
      exit;
    }}
    xlog("L_ALERT", "BOUND $ct\n");
    save("location");
    exit;
  }}
  if ($sp == {far_port}) {{
    record_route();
    $ru = "sip:4930100@provider.example";
    if (!lookup("location")) {{
      sl_send_reply("480", "Nobody Registered");
      exit;
    }}
    t_relay();
    exit;
  }}
  route(PROVE);
  record_route();
  $du = "sip:127.0.0.3:{far_port};transport=udp";
  t_relay();
}}
route[PROVE] {{
  if (!pv_proxy_authenticate("{realm}", "{password}", "0")) {{
    $var(rc) = $rc;
    xlog("L_ALERT", "CHALLENGED $rm $var(rc)\n");
    # Within a dialog To has a tag already, so nothing but a transaction knows that ACK.
    if (has_totag() && is_method("INVITE") && !t_newtran()) {{ exit; }}
    if ($var(rc) == -4 || $var(rc) == -6) {{
      proxy_challenge("{realm}", "17");
    }} else {{
      proxy_challenge("{realm}", "1");
    }}
    exit;
  }}
  xlog("L_ALERT", "PROVED $rm $cs by $au\n");
  consume_credentials();
}}
"#
        );
        fs::write(at("kamailio.cfg"), config).unwrap();
        let run = folder.join("run");
        fs::create_dir_all(&run).unwrap();
        let log = folder.join("kamailio.log");
        let (file, run) = (at("kamailio.cfg"), run.display().to_string());
        let arguments = ["-f", &file, "-DD", "-E", "-m", "64", "-M", "8", "-Y", &run];
        let process = Running::start("kamailio", &arguments, &log);
        let place = format!("{HOST}:{port}");
        wait_for_place(&place, &log);
        Self {
            process,
            addr: place.parse().unwrap(),
            log,
        }
    }

    /// How often its log has this.
    pub(crate) fn told(&self, text: &str) -> usize {
        fs::read_to_string(&self.log).unwrap().matches(text).count()
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // The first process takes its children with it when it is asked to end.
        self.process.signal("-TERM");
        let _ = self.process.wait(Duration::from_secs(10));
    }
}
