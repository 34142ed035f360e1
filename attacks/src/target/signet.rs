//! Signet, with a configuration and a data folder of its own.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use super::{Server, Setup, free_port, spawn};
use crate::digest::Account;

pub(super) fn start(
    program: &Path,
    setup: &Setup,
    domain: &str,
    users: &[Account],
    folder: &Path,
) -> Result<Server, String> {
    let data = folder.join("data");
    let _ = fs::remove_dir_all(&data);
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let loopback = [127, 0, 0, 1];
    let port = free_port(setup.listen)?;
    let path = folder.join("signet.toml");
    write(&path, &configuration(setup, domain, port))?;
    let list = folder.join("users.csv");
    let lines: String = users
        .iter()
        .map(|a| format!("{},{domain},{}\n", a.user, a.password))
        .collect();
    write(&list, &format!("user,realm,password\n{lines}"))?;
    for (name, text) in &setup.secrets {
        write_secret(&folder.join(name), text)?;
    }
    let list = list.display().to_string();
    order(program, &path, &["user", "import", &list])?;
    for command in &setup.commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        order(program, &path, &words)?;
    }
    let arguments = vec![
        "serve".to_owned(),
        "--config".to_owned(),
        path.display().to_string(),
    ];
    let child = spawn(program, &arguments, folder)?;
    Ok(Server {
        udp: SocketAddr::from((loopback, port)),
        tcp: Some(SocketAddr::from((loopback, port))),
        tls: Some(SocketAddr::from((loopback, port + 1))),
        pid: Some(child.id()),
        child: Some(child),
        folder: Some(folder.to_owned()),
        program: Some((program.to_owned(), arguments)),
    })
}

pub(super) fn remove_user(program: &Path, folder: &Path, name: &str) -> Result<(), String> {
    order(
        program,
        &folder.join("signet.toml"),
        &["user", "remove", name],
    )
}

/// Runs a command of the program to its end.
fn order(program: &Path, configuration: &Path, words: &[&str]) -> Result<(), String> {
    let told = Command::new(program)
        .args(words)
        .arg("--config")
        .arg(configuration)
        .output()
        .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
    if told.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&told.stderr);
    Err(format!("signet {}: {why}", words.join(" ")))
}

/// The trusted network covers the server's own address, as it does for an
/// operator who trusts the machines of his rack.
fn configuration(setup: &Setup, domain: &str, port: u16) -> String {
    let [a, b, c, d] = setup.listen;
    let host = format!("{a}.{b}.{c}.{d}");
    let (keys, tables, gateway) = (&setup.keys, &setup.tables, &setup.gateway);
    let (name_server, dns) = (&setup.name_server, &setup.dns);
    format!(
        "version = 1\ndata = \"data\"\ndomains = [\"{domain}\"]\nworkers = 2\n{keys}\n\
         [[listen]]\non = \"udp:{host}:{port}\"\n\
         [[listen]]\non = \"tcp:{host}:{port}\"\n\
         [[listen]]\non = \"tls:{host}:{}\"\n\
         [[trusted]]\nnetwork = \"127.0.0.0/28\"\n\
         [[gateway_group]]\nname = \"outside\"\ngateways = [{{ uri = \"{gateway}\" }}]\n\
         [[route]]\nprefix = \"+\"\ngroup = \"outside\"\n\
         [[route]]\ndomain = \"partner.test\"\ngroup = \"outside\"\n\
         [dns]\nservers = [\"{name_server}\"]\n{dns}\n\
         {tables}\n",
        port + 1
    )
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn write_secret(path: &Path, text: &str) -> Result<(), String> {
    let _ = fs::remove_file(path);
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| format!("{}: {e}", path.display()))
}
