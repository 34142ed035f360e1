//! Statements that a database refuses: over a name, or whatever they ask.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use sip_lookup::BatchFailure;
use sip_userdb::{Options, UserDb};

use super::postgresql::postgresql_by;
use super::{Act, converse, one, options, then_recovers};
use crate::support::run;
use crate::support::suite::{ask, assert_is, subject};

/// A name with letters that a table may not have.
const ODD: &str = "\u{1f600}";

/// A MySQL server for one connection, where each statement is done with as `act` has it of its names.
fn mysql_by(mut act: impl FnMut(&[&str]) -> Act + Send + 'static) -> Options {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let _ = converse(stream, |values| {
            let names = values[..values.len() - 1].iter();
            let names: Vec<&str> = names.map(|name| str::from_utf8(name).unwrap()).collect();
            act(&names)
        });
    });
    options(&format!("mysql://signet@127.0.0.1:{port}/sip"))
}

#[test]
fn a_refusal_is_one_statements_matter() {
    then_recovers(&[Act::Refuse, Act::Answer], async |db| {
        let users = ["alice", "carol"];
        let asked = users.map(|user| one(db, user));
        let mut refused = 0;
        for (user, answer) in users
            .iter()
            .zip(futures_util::future::join_all(asked).await)
        {
            match answer {
                Ok(row) => assert_is(db, &row, user),
                Err(BatchFailure::Refused(why)) if why.contains("1064") => refused += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(refused, 1);
    });
}

#[test]
fn a_refusal_of_whatever_is_asked_is_no_statements_matter() {
    then_recovers(&[Act::Refuse, Act::Refuse], async |db| {
        let refused = one(db, "alice").await;
        assert!(
            matches!(&refused, Err(BatchFailure::Unusable(why)) if why.contains("1064")),
            "{refused:?}"
        );
    });
}

/// Letters that a table does not have are found in few statements, and whoever sends a name with
/// them again spoils no other's statement.
#[test]
fn a_name_that_a_table_cannot_have_is_found_soon_and_remembered() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let db = UserDb::new(mysql_by(move |names| {
        let is_refused = names.contains(&ODD);
        let others = names.iter().filter(|name| **name != ODD).count();
        sees.lock().unwrap().push((is_refused, others));
        if is_refused { Act::Refuse } else { Act::Answer }
    }))
    .unwrap();
    let mut users: Vec<String> = (0..255).map(|nth| format!("é{nth}")).collect();
    users.insert(100, ODD.to_owned());
    run(async {
        for statements_max in [25, 2] {
            let rows = ask(&db, users.iter().map(|user| subject(user)).collect());
            for (user, row) in users.iter().zip(rows.await.unwrap()) {
                assert_eq!(row.is_err(), user == ODD, "{user}: {row:?}");
            }
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            assert!(seen.len() <= statements_max, "{seen:?}");
            let spoilt = seen
                .iter()
                .filter(|&&(is_refused, others)| is_refused && others > 0);
            assert_eq!(spoilt.count() == 0, statements_max == 2, "{seen:?}");
        }
    });
}

/// Once a table is gone, a name that it could not have is refused for that like any other.
#[test]
fn a_name_that_was_refused_before_and_is_alone_says_nothing_of_a_table_that_is_gone() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let refuses = || {
        let is_gone = Arc::clone(&is_gone);
        move |text: &str| is_gone.load(Ordering::SeqCst) || text.contains(ODD)
    };
    let (mysql_refuses, postgresql_refuses) = (refuses(), refuses());
    let mysql = mysql_by(move |names| match mysql_refuses(&names.concat()) {
        true => Act::Refuse,
        false => Act::Answer,
    });
    for options in [mysql, postgresql_by(postgresql_refuses)] {
        is_gone.store(false, Ordering::SeqCst);
        let db = UserDb::new(options).unwrap();
        run(async {
            for _ in 0..2 {
                assert!(matches!(one(&db, ODD).await, Ok(Err(_))));
                assert_is(&db, &one(&db, "alice").await.unwrap(), "alice");
            }
            is_gone.store(true, Ordering::SeqCst);
            for user in [ODD, "alice", ODD] {
                let refused = one(&db, user).await;
                assert!(
                    matches!(refused, Err(BatchFailure::Unusable(_))),
                    "{user}: {refused:?}"
                );
            }
            is_gone.store(false, Ordering::SeqCst);
            assert!(matches!(one(&db, ODD).await, Ok(Err(_))));
        });
    }
}
