//! The run's constants become text.

use std::io::Write;

use crate::program::{Action, FileRef, Program, What};
use crate::settings::{Settings, ip_text};
use crate::template::{Constant, Template};

pub(super) fn link(mut program: Program, settings: &Settings) -> Program {
    let constant = |which: Constant, out: &mut Vec<u8>| write(settings, which, out);
    let relink = |template: &mut Template| *template = template.link(&constant);
    for step in &mut program.steps {
        match &mut step.what {
            What::Send(send) => relink(&mut send.template),
            What::SendCommand(command) => relink(&mut command.template),
            _ => {}
        }
        for action in &mut step.actions {
            match action {
                Action::Log(text)
                | Action::Warning(text)
                | Action::Error(text)
                | Action::AssignText(_, text)
                | Action::Command(text) => relink(text),
                Action::Lookup { file, key, .. } => {
                    relink(key);
                    if let FileRef::Named(name) = file {
                        relink(name);
                    }
                }
                Action::SetDestination {
                    host,
                    port,
                    protocol,
                } => [host, port, protocol].into_iter().for_each(&relink),
                Action::VerifyAuth { user, password, .. } => {
                    [user, password].into_iter().for_each(&relink);
                }
                _ => {}
            }
        }
    }
    program
}

/// Appends a constant; false where it differs from call to call.
fn write(settings: &Settings, which: Constant, out: &mut Vec<u8>) -> bool {
    let is_one = settings.locals.len() == 1 && !settings.own_addresses;
    let local = settings.locals.first();
    let port = |port: u16, offset: i64| i64::from(port).saturating_add(offset);
    let local_ip = local.map(|local| local.ip());
    // Writing to memory cannot fail.
    let _ = match which {
        Constant::Service => out.write_all(&settings.service),
        Constant::RemoteHost => out.write_all(settings.remote_host.as_bytes()),
        Constant::RemoteIp => match settings.remote {
            Some(remote) => out.write_all(ip_text(remote.ip()).as_bytes()),
            None => Ok(()),
        },
        Constant::RemotePort(offset) => {
            write!(
                out,
                "{}",
                port(settings.remote.map_or(5_060, |r| r.port()), offset)
            )
        }
        Constant::LocalIp => {
            if !is_one {
                return false;
            }
            out.write_all(local_ip.map(ip_text).unwrap_or_default().as_bytes())
        }
        Constant::ServerIp => out.write_all(local_ip.map(ip_text).unwrap_or_default().as_bytes()),
        Constant::LocalIpType => {
            let six = local_ip.is_some_and(|ip| ip.is_ipv6());
            out.write_all(if six { b"6" } else { b"4" })
        }
        Constant::LocalPort(offset) => {
            if !is_one {
                return false;
            }
            write!(out, "{}", port(local.map_or(0, |l| l.port()), offset))
        }
        Constant::MediaIp => out.write_all(settings.media_ip.to_string().as_bytes()),
        Constant::MediaIpType => out.write_all(if settings.media_ip.is_ipv6() {
            b"6"
        } else {
            b"4"
        }),
        Constant::MediaPort(offset) => write!(out, "{}", port(settings.media_port, offset)),
        Constant::Transport => out.write_all(settings.transport.via_name().as_bytes()),
        Constant::Pid => write!(out, "{}", settings.pid),
        Constant::Users => match settings.users {
            Some(users) => write!(out, "{users}"),
            None => out.write_all(b"-1"),
        },
    };
    true
}
