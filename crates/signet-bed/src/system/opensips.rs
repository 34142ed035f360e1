//! OpenSIPS, where it is installed: Debian 12 has no package of it.

use super::{ConfigFile, Driver, Server, Stage, Unable, version_of};
use crate::experiment::{Authentication, Connection, Role, Setting, Transport};

const PROGRAM: &str = "opensips";
const INSTALL: &str = "install it from the project's own packages (https://apt.opensips.org), or measure another system";
/// Megabytes of memory that its processes share, and that each has for itself.
const MEMORY_MB: (&str, &str) = ("4096", "16");

/// OpenSIPS 3.2 or later.
#[derive(Clone, Copy, Debug)]
pub struct OpenSips;

impl Driver for OpenSips {
    fn name(&self) -> &'static str {
        "opensips"
    }

    fn version(&self) -> Result<String, Unable> {
        version_of(PROGRAM, "-V", INSTALL)
    }

    fn configuration(
        &self,
        stage: &Stage<'_>,
        setting: &Setting,
    ) -> Result<Vec<ConfigFile>, Unable> {
        if setting.transport == Transport::Tls || setting.authentication != Authentication::None {
            return Err(Unable::new(
                "this driver has OpenSIPS over UDP and TCP without authentication",
                "measure those cases, or set it up yourself and write --to ADDRESS:PORT",
            ));
        }
        if setting.transport == Transport::Tcp && setting.called_connection == Connection::PerCall {
            return Err(Unable::new(
                "OpenSIPS has one connection to a next hop for all calls",
                "measure it with called_connection = \"one\"",
            ));
        }
        Ok(vec![ConfigFile::new(
            "opensips.cfg",
            configuration(stage, setting),
        )])
    }

    fn start(&self, stage: &Stage<'_>, setting: &Setting) -> Result<Server, String> {
        let files = self
            .configuration(stage, setting)
            .map_err(|unable| unable.to_string())?;
        for file in &files {
            file.write(stage.folder)?;
        }
        let config = stage.path("opensips.cfg").display().to_string();
        let words = ["-f", &config, "-FE", "-m", MEMORY_MB.0, "-M", MEMORY_MB.1].map(str::to_owned);
        let site = stage.site(setting, None);
        let mut server = site.start(self.name(), PROGRAM, &words)?;
        std::thread::sleep(std::time::Duration::from_millis(500));
        server.must_run()?;
        Ok(server)
    }
}

fn configuration(stage: &Stage<'_>, setting: &Setting) -> String {
    let (transport, workers) = (setting.transport.name(), setting.workers());
    let mut text = format!(
        "log_level=1\nstderror_enabled=yes\nsyslog_enabled=no\nauto_aliases=no\n\
         udp_workers={workers}\ntcp_workers={workers}\nsocket={transport}:{}\n\
         loadmodule \"proto_{transport}.so\"\nloadmodule \"tm.so\"\nloadmodule \"sl.so\"\n\
         loadmodule \"maxfwd.so\"\nloadmodule \"sipmsgops.so\"\nloadmodule \"signaling.so\"\n",
        stage.server(setting)
    );
    let where_to = match setting.role {
        Role::Proxy => format!("    $du = \"sip:{}\";\n", stage.next_hop(setting)),
        Role::Registrar => {
            text += "loadmodule \"usrloc.so\"\nloadmodule \"registrar.so\"\n\
                     modparam(\"usrloc\", \"working_mode_preset\", \"single-instance-no-db\")\n";
            "    if (is_method(\"REGISTER\")) { save(\"location\"); exit; }\n    \
             if (!has_totag() && !lookup(\"location\")) { send_reply(404, \"Not Found\"); exit; }\n"
                .to_owned()
        }
    };
    text += &format!(
        "route {{\n    if (!mf_process_maxfwd_header(10)) {{ send_reply(483, \"Too Many Hops\"); exit; }}\n\
         {where_to}    if (!t_relay()) {{ send_reply(500, \"Server Internal Error\"); }}\n}}\n"
    );
    text
}
