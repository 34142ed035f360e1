//! Kamailio as an edge: it writes itself into the Path of REGISTERs and into the route of
//! dialogs, and sends all else on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::support::command::text;
use super::support::{Running, wait_for_place};

/// A Kamailio that ends with this value.
pub(crate) struct Edge(Running);

impl Edge {
    /// At port 5060 of `address`, before the one at port 5060 of `server`.
    pub(crate) fn start(folder: &Path, address: &str, server: &str) -> Self {
        let modules = ["tm", "sl", "rr", "pv", "path", "textops", "siputils"];
        let modules: String = modules
            .iter()
            .map(|name| format!("loadmodule \"{name}.so\"\n"))
            .collect();
        let config = format!(
            r#"#!KAMAILIO
debug=1
log_stderror=yes
children=1
disable_tcp=yes
auto_aliases=no
listen=udp:{address}:5060
{modules}
modparam("path", "use_received", 1)
request_route {{
  if (is_method("CANCEL")) {{
    if (t_check_trans()) {{ t_relay(); }}
    exit;
  }}
  if (has_totag()) {{
    if (loose_route()) {{ t_relay(); exit; }}
  }} else if (loose_route_preloaded() && $si == "{server}") {{
    record_route();
    t_relay();
    exit;
  }}
  if (is_method("ACK")) {{
    if (t_check_trans()) {{ t_relay(); }}
    exit;
  }}
  if (is_method("REGISTER")) {{ add_path_received(); }} else {{ record_route(); }}
  t_relay_to_udp("{server}", "5060");
}}
"#
        );
        let file = folder.join("edge.cfg");
        fs::write(&file, config).unwrap();
        let run = folder.join("edge-run");
        fs::create_dir_all(&run).unwrap();
        let words = [
            "-f",
            text(&file),
            "-DD",
            "-E",
            "-m",
            "64",
            "-M",
            "8",
            "-Y",
            text(&run),
        ];
        let log = folder.join("edge.log");
        let process = Running::start("kamailio", &words, &log);
        wait_for_place(&format!("{address}:5060"), &log);
        Self(process)
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // The first process takes its children with it when it is asked to end.
        self.0.signal("-TERM");
        let _ = self.0.wait(Duration::from_secs(10));
    }
}
