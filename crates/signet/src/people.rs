//! `signet user`, `signet alias` and `signet domain`: whom a server is for, and by which names.

use signet_serve::Error;
use signet_serve::admin::{Domains, Instance, People, UserList, Users};
use signet_serve::config::Domain;

use crate::args::{AliasCommand, DomainCommand, UserCommand};

/// Lets names and numbers lead to others.
pub(crate) fn alias(
    place: &Instance,
    domain: Option<Domain>,
    command: AliasCommand,
) -> Result<(), Error> {
    place.must_exist()?;
    let mut people = People::open(place, domain)?;
    match command {
        AliasCommand::Add { name, targets } => people.alias_add(&name, &targets),
        AliasCommand::Remove { name, target } => people.alias_remove(&name, target.as_deref()),
        AliasCommand::List => people.alias_list(),
    }
}

/// Adds, lists and removes domains.
pub(crate) fn domain(place: &Instance, command: DomainCommand) -> Result<(), Error> {
    if !matches!(command, DomainCommand::Add { .. }) {
        place.must_exist()?;
    }
    let mut domains = Domains::open(place)?;
    match command {
        DomainCommand::Add { domain } => domains.add(&domain),
        DomainCommand::List => domains.list(),
        DomainCommand::Remove { domain } => domains.remove(&domain),
    }
}

/// Adds, changes, lists and removes users.
pub(crate) fn user(
    place: &Instance,
    domain: Option<Domain>,
    command: UserCommand,
) -> Result<(), Error> {
    if !matches!(
        command,
        UserCommand::Add { .. } | UserCommand::Import { .. }
    ) {
        place.must_exist()?;
    }
    let command = match command {
        UserCommand::Set { name, changes } => {
            let mut people = People::open(place, domain)?;
            return people.user_set(&name, &changes.into());
        }
        UserCommand::Show { name } => {
            return People::open(place, domain)?.user_show(&name);
        }
        UserCommand::Import { file } => {
            let list = UserList::read(&file)?;
            return Users::open(place, domain)?.import(&list);
        }
        other => other,
    };
    let users = Users::open(place, domain)?;
    match command {
        // They were done above.
        UserCommand::Set { .. } | UserCommand::Show { .. } | UserCommand::Import { .. } => Ok(()),
        UserCommand::Add { name, password } => users.add(&name, password.into()),
        UserCommand::Passwd { name, password } => users.passwd(&name, password.into()),
        UserCommand::List => users.list(),
        UserCommand::Remove { name } => users.remove(&name),
        UserCommand::Export { file } => users.export(file.as_deref()),
    }
}
