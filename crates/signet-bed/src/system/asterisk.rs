//! Asterisk, where it is installed: Debian 12 has no package of it.

use super::{ConfigFile, Driver, Server, Stage, Unable, version_of};
use crate::experiment::{Authentication, Connection, Flow, Role, Setting, Transport};

const PROGRAM: &str = "asterisk";
const INSTALL: &str = "build it from https://www.asterisk.org/downloads, or measure another system";

/// Asterisk with `chan_pjsip`: a back-to-back user agent, which answers callers itself.
#[derive(Clone, Copy, Debug)]
pub struct Asterisk;

impl Driver for Asterisk {
    fn name(&self) -> &'static str {
        "asterisk"
    }

    fn version(&self) -> Result<String, Unable> {
        version_of(PROGRAM, "-V", INSTALL)
    }

    fn configuration(
        &self,
        stage: &Stage<'_>,
        setting: &Setting,
    ) -> Result<Vec<ConfigFile>, Unable> {
        let is_plain = setting.transport != Transport::Tls
            && setting.authentication == Authentication::None
            && setting.role == Role::Proxy
            && setting.flow == Flow::Calls;
        if !is_plain {
            return Err(Unable::new(
                "this driver has Asterisk between a caller and one next hop, over UDP and TCP without authentication",
                "measure those cases, or set it up yourself and write --to ADDRESS:PORT",
            ));
        }
        if setting.transport == Transport::Tcp && setting.called_connection == Connection::PerCall {
            return Err(Unable::new(
                "Asterisk has one connection to a next hop for all calls",
                "measure it with called_connection = \"one\"",
            ));
        }
        Ok(files(stage, setting))
    }

    fn start(&self, stage: &Stage<'_>, setting: &Setting) -> Result<Server, String> {
        let files = self
            .configuration(stage, setting)
            .map_err(|unable| unable.to_string())?;
        for name in ["asterisk-run", "asterisk-var"] {
            let folder = stage.path(name);
            std::fs::create_dir_all(&folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        for file in &files {
            file.write(stage.folder)?;
        }
        let config = stage.path("asterisk.conf").display().to_string();
        let words = ["-f", "-C", &config].map(str::to_owned);
        stage
            .site(setting, None)
            .start(self.name(), PROGRAM, &words)
    }
}

fn files(stage: &Stage<'_>, setting: &Setting) -> Vec<ConfigFile> {
    let folder = stage.folder.display();
    let transport = setting.transport.name();
    let main = format!(
        "[directories]\nastetcdir = {folder}\nastrundir = {folder}/asterisk-run\nastvarlibdir = {folder}/asterisk-var\n\
         astdbdir = {folder}/asterisk-var\nastspooldir = {folder}/asterisk-var\nastlogdir = {folder}/asterisk-var\n"
    );
    let modules = [
        "app_dial",
        "chan_pjsip",
        "pbx_config",
        "codec_ulaw",
        "res_rtp_asterisk",
    ]
    .iter()
    .map(|name| format!("load = {name}.so\n"))
    .collect::<String>();
    let pjsip = format!(
        "[listen]\ntype = transport\nprotocol = {transport}\nbind = {}\n\n\
         [callers]\ntype = endpoint\ncontext = bed\ndisallow = all\nallow = ulaw\n\n\
         [callers]\ntype = identify\nendpoint = callers\nmatch = 127.0.0.0/8\nmatch = 10.213.0.0/16\n\n\
         [called]\ntype = aor\ncontact = sip:{}\n\n\
         [called]\ntype = endpoint\naors = called\ndisallow = all\nallow = ulaw\n",
        stage.server(setting),
        stage.next_hop(setting)
    );
    vec![
        ConfigFile::new("asterisk.conf", main),
        ConfigFile::new(
            "modules.conf",
            format!(
                "[modules]\nautoload = no\n{modules}load = res_pjsip.so\nload = res_pjsip_session.so\nload = res_pjsip_endpoint_identifier_ip.so\nload = res_pjsip_sdp_rtp.so\nload = res_sorcery_config.so\nload = res_sorcery_memory.so\nload = res_timing_timerfd.so\n"
            ),
        ),
        ConfigFile::new("pjsip.conf", pjsip),
        ConfigFile::new(
            "extensions.conf",
            "[bed]\nexten = _[+0-9].,1,Dial(PJSIP/called)\n".to_owned(),
        ),
    ]
}
