//! Kamailio, with `attacks/kamailio.cfg` filled in.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::{Server, Setup, free_port, spawn};
use crate::digest::Account;

const CONFIGURATION: &str = include_str!("../../kamailio.cfg");

pub(super) fn start(
    setup: &Setup,
    domain: &str,
    users: &[Account],
    folder: &Path,
) -> Result<Server, String> {
    let data = folder.join("data");
    let _ = fs::remove_dir_all(&data);
    fs::create_dir_all(&data).map_err(|e| format!("{}: {e}", data.display()))?;
    let port = free_port(setup.listen)?;
    let [a, b, c, d] = setup.listen;
    let modules = fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("kamailio/modules"))
        .find(|path| path.is_dir())
        .ok_or("Kamailio's modules are not installed (scripts/tools installs them)")?;
    let text = CONFIGURATION
        .replace("@HOST@", &format!("{a}.{b}.{c}.{d}"))
        .replace("@PORT@", &port.to_string())
        .replace("@DOMAIN@", domain)
        .replace("@GATEWAY@", &setup.gateway)
        .replace("@MODULES@", &modules.display().to_string())
        .replace("@DATA@", &data.display().to_string());
    let path = folder.join("kamailio.cfg");
    write(&path, &text)?;
    write(
        &data.join("version"),
        "table_name(string) table_version(int)\nsubscriber:7\nsecfilter:1\n",
    )?;
    // Action 0 and type 0: a User-Agent that is refused.
    write(
        &data.join("secfilter"),
        "id(int,auto) action(int) type(int) data(string)\n\
         1:0:0:friendly-scanner\n2:0:0:sipvicious\n3:0:0:sipcli\n4:0:0:pplsip\n",
    )?;
    let lines: String = users
        .iter()
        .map(|a| format!("{}:{domain}:{}\n", a.user, a.password))
        .collect();
    write(
        &data.join("subscriber"),
        &format!("username(string) domain(string) password(string)\n{lines}"),
    )?;
    let mut arguments: Vec<String> = ["-DD", "-E", "-m", "4096", "-M", "16", "-x", "tlsf", "-X"]
        .map(str::to_owned)
        .to_vec();
    arguments.extend([
        "tlsf".to_owned(),
        "-f".to_owned(),
        path.display().to_string(),
    ]);
    arguments.extend(["-Y".to_owned(), data.display().to_string()]);
    for name in &setup.kamailio {
        arguments.extend(["-A".to_owned(), (*name).to_owned()]);
    }
    let child = spawn(Path::new("kamailio"), &arguments, folder)?;
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    Ok(Server {
        udp: at,
        tcp: Some(at),
        tls: None,
        pid: Some(child.id()),
        child: Some(child),
        folder: Some(folder.to_owned()),
        program: None,
    })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
