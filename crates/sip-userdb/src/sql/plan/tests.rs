#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::sync::Arc;

use super::*;
use crate::Tls;

fn options(url: &str, layout: Layout) -> Options {
    Options {
        url: url.to_owned(),
        password: None,
        tls: Tls::Never,
        tls_roots: None,
        layout,
        algorithms: None,
        wanted: None,
        connections_max: 1,
        connect_timeout_ms: 1_000,
    }
}

fn plan(dialect: Dialect, url: &str, layout: Layout) -> Result<Plan, Error> {
    Plan::new(dialect, &Url::parse(url).unwrap(), &options(url, layout))
}

fn subscriber(user_with_domain: bool) -> Layout {
    Layout::Subscriber {
        table: "subscriber".to_owned(),
        user_with_domain,
    }
}

const MYSQL: &str = "mysql://signet@localhost/signet";
const NO_DOMAIN: &str = "mysql://signet@localhost/signet?domain=no";

#[test]
fn statements_by_layout_and_database() {
    let sql = |dialect, url, layout| plan(dialect, url, layout).unwrap().select(2).sql;
    assert_eq!(
        sql(Dialect::Mysql, MYSQL, subscriber(false)),
        "SELECT username, domain, ha1 FROM `subscriber` \
         WHERE username IN (?,?) AND domain IN (?)"
    );
    assert_eq!(
        sql(Dialect::Mysql, NO_DOMAIN, subscriber(false)),
        "SELECT username, ha1 FROM `subscriber` WHERE username IN (?,?)"
    );
    assert_eq!(
        sql(Dialect::Postgres, MYSQL, subscriber(true)),
        "SELECT username, domain, ha1b AS ha1 FROM \"subscriber\" \
         WHERE username = ANY($1) AND domain = ANY($2)"
    );
    assert_eq!(
        sql(Dialect::Postgres, MYSQL, Layout::Signet),
        "SELECT username, realm, ha1_sha512_256, ha1_sha256, ha1_md5 FROM signet_users \
         WHERE realm = ANY($1) AND username = ANY($2)"
    );
}

#[test]
fn no_more_is_asked_for_than_is_wanted() {
    let mut options = options(MYSQL, Layout::Signet);
    options.wanted = Some(vec![Algorithm::Md5]);
    let plan = Plan::new(Dialect::Mysql, &Url::parse(MYSQL).unwrap(), &options).unwrap();
    assert_eq!(
        plan.select(1).sql,
        "SELECT username, realm, ha1_md5 FROM signet_users \
         WHERE realm IN (?) AND username IN (?)"
    );
    assert_eq!(plan.capabilities(false, 1).algorithms, [Algorithm::Md5]);
}

#[test]
fn a_name_with_its_domain_belongs_to_that_realm_only() {
    let plan = plan(Dialect::Mysql, MYSQL, subscriber(true)).unwrap();
    let sent = |user: &str| plan.sent(&Subject::new(user.as_bytes(), Arc::from("x.org")));
    assert_eq!(sent("alice@x.org"), Some("alice".to_owned()));
    assert_eq!(sent("a@b@x.org"), Some("a@b".to_owned()));
    for other in ["alice", "alice@y.org", "alice@X.org", "alice@x.org "] {
        assert_eq!(sent(other), None, "{other}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for table in ["", "a b", "t;DROP", "a..b", "`t`", "t\"", "täble"] {
        let layout = Layout::Subscriber {
            table: table.to_owned(),
            user_with_domain: false,
        };
        assert!(plan(Dialect::Mysql, MYSQL, layout).is_err(), "{table}");
    }
    assert!(plan(Dialect::Mysql, NO_DOMAIN, subscriber(true)).is_err());
    assert!(plan(Dialect::Mysql, NO_DOMAIN, Layout::Signet).is_err());
    let maybe = "mysql://signet@localhost/signet?domain=maybe";
    assert!(plan(Dialect::Mysql, maybe, subscriber(false)).is_err());
    let error = only(&Url::parse(NO_DOMAIN).unwrap(), &["socket", "pipelined"]).unwrap_err();
    assert!(error.remedy().contains("pipelined"), "{error}");
}

#[test]
fn a_statement_of_the_operators_own_cannot_be_written_through() {
    let layout = Layout::Query("SELECT username, ha1 FROM v WHERE username IN ({users})".into());
    let plan = plan(Dialect::Mysql, MYSQL, layout).unwrap();
    let capabilities = plan.capabilities(false, 8);
    assert!(!capabilities.is_writable);
    assert_eq!(capabilities.algorithms, [Algorithm::Md5]);
    assert!(plan.schema().is_err() && plan.domains().is_none());
}
