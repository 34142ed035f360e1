//! The `signet` program: it parses arguments and calls the library.
#![forbid(unsafe_code)]

mod args;
mod bed;
mod documents;
mod load;
mod plan;
mod price;
mod top;
mod trace;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use signet_serve::Error;

use args::{
    AliasCommand, Args, BansCommand, BindingsCommand, CaCommand, Command, DomainCommand,
    GatewaysCommand, HookCommand, MediaCommand, TlsCommand, UserCommand, form,
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
            let _ = writeln!(std::io::stderr(), "signet: {error}");
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
        Command::Check { file } => admin::check(&file),
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
        } => {
            let place: admin::Instance = place.into();
            place.must_exist()?;
            let mut people = admin::People::open(&place, domain)?;
            match command {
                AliasCommand::Add { name, targets } => people.alias_add(&name, &targets),
                AliasCommand::Remove { name, target } => {
                    people.alias_remove(&name, target.as_deref())
                }
                AliasCommand::List => people.alias_list(),
            }
        }
        Command::Domain { place, command } => {
            let place: admin::Instance = place.into();
            if !matches!(command, DomainCommand::Add { .. }) {
                place.must_exist()?;
            }
            let mut domains = admin::Domains::open(&place)?;
            match command {
                DomainCommand::Add { domain } => domains.add(&domain),
                DomainCommand::List => domains.list(),
                DomainCommand::Remove { domain } => domains.remove(&domain),
            }
        }
        Command::User {
            place,
            domain,
            command,
        } => {
            let place: admin::Instance = place.into();
            if !matches!(
                command,
                UserCommand::Add { .. } | UserCommand::Import { .. }
            ) {
                place.must_exist()?;
            }
            let command = match command {
                UserCommand::Set { name, changes } => {
                    let mut people = admin::People::open(&place, domain)?;
                    return people.user_set(&name, &changes.into());
                }
                UserCommand::Show { name } => {
                    return admin::People::open(&place, domain)?.user_show(&name);
                }
                other => other,
            };
            let users = admin::Users::open(&place, domain)?;
            match command {
                // They were done above.
                UserCommand::Set { .. } | UserCommand::Show { .. } => Ok(()),
                UserCommand::Add { name, password } => users.add(&name, password.into()),
                UserCommand::Passwd { name, password } => users.passwd(&name, password.into()),
                UserCommand::List => users.list(),
                UserCommand::Remove { name } => users.remove(&name),
                UserCommand::Import { file } => users.import(&file),
                UserCommand::Export { file } => users.export(file.as_deref()),
            }
        }
    }
}
