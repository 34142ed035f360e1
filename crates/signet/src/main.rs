//! The `signet` program: it parses arguments and calls the library.
#![forbid(unsafe_code)]

mod args;
mod bed;
mod documents;
mod load;
mod people;
mod plan;
mod price;
mod top;
mod trace;

use std::process::ExitCode;

use clap::Parser;
use signet_serve::Error;

use args::{
    Args, BansCommand, BindingsCommand, CaCommand, Command, GatewaysCommand, HookCommand,
    MediaCommand, TlsCommand, form,
};

/// Transactions live for half a minute, so what a message touches is seldom in
/// a cache; huge pages (`.cargo/config.toml`) spare the walks through the page tables as well.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Command::Load { command } = args.command {
        return ExitCode::from(load::run(command));
    }
    if let Command::Bed { command } = args.command {
        return ExitCode::from(bed::run(&command));
    }
    if let Command::Price { command } = args.command {
        return ExitCode::from(price::run(command));
    }
    if let Command::Plan(options) = args.command {
        return ExitCode::from(plan::run(&options));
    }
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            signet_serve::say_last(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), Error> {
    use signet_serve::{admin, serve};
    match args.command {
        Command::Serve(options) => serve(options.source()),
        // They have exit codes of their own.
        Command::Load { .. } | Command::Bed { .. } | Command::Price { .. } | Command::Plan(_) => {
            Ok(())
        }
        Command::Tls {
            place,
            json,
            command,
        } => match command {
            None => admin::tls(&place.into(), form(json)),
            Some(TlsCommand::RotateSecret { forget_old }) => {
                admin::tls_rotate_secret(&place.into(), forget_old)
            }
        },
        Command::Check { file, start } => admin::check(
            &file,
            match start {
                true => admin::CheckFor::Start,
                false => admin::CheckFor::Use,
            },
        ),
        Command::Completions { shell } => documents::completions(shell),
        Command::Man { folder } => documents::manual(&folder),
        Command::Ca { place, command } => match command {
            CaCommand::Init => admin::ca_init(&place.into()),
            CaCommand::Issue {
                names,
                out,
                key_type,
            } => admin::ca_issue(&place.into(), &names, out.as_deref(), key_type),
        },
        Command::Why(options) => options.ask(),
        Command::Trace(options) => options.run(),
        Command::Bindings {
            place,
            user,
            json,
            command,
        } => match command {
            None => admin::bindings(&place.into(), user.as_deref(), form(json)),
            Some(BindingsCommand::Remove { user, contact }) => {
                admin::bindings_remove(&place.into(), &user, contact.as_deref())
            }
        },
        Command::Calls { place, user, json } => {
            admin::calls(&place.into(), user.as_deref(), form(json))
        }
        Command::Gateways {
            place,
            json,
            command,
        } => match command {
            None => admin::gateways(&place.into(), form(json)),
            Some(GatewaysCommand::Drain { name }) => {
                admin::gateways_drain(&place.into(), &name, true)
            }
            Some(GatewaysCommand::Undrain { name }) => {
                admin::gateways_drain(&place.into(), &name, false)
            }
        },
        Command::Hook {
            place,
            json,
            command: HookCommand::Forget,
        } => admin::hook_forget(&place.into(), form(json)),
        Command::Trunks { place, json } => admin::trunks(&place.into(), form(json)),
        Command::Media {
            place,
            json,
            command,
        } => match command {
            None => admin::media(&place.into(), form(json)),
            Some(MediaCommand::Drain { engine }) => admin::media_drain(&place.into(), engine, true),
            Some(MediaCommand::Undrain { engine }) => {
                admin::media_drain(&place.into(), engine, false)
            }
        },
        Command::Bans {
            place,
            json,
            command,
        } => match command {
            None => admin::bans(&place.into(), form(json)),
            Some(BansCommand::Lift { source }) => admin::bans_lift(&place.into(), source),
        },
        Command::Limits { place, json } => admin::limits(&place.into(), form(json)),
        Command::LogLevel { place, level, json } => {
            admin::log_level(&place.into(), level, form(json))
        }
        Command::Top { place, json } => top::run(&place.into(), json),
        Command::Alias {
            place,
            domain,
            command,
        } => people::alias(&place.into(), domain, command),
        Command::Domain { place, command } => people::domain(&place.into(), command),
        Command::User {
            place,
            domain,
            command,
        } => people::user(&place.into(), domain, command),
    }
}
