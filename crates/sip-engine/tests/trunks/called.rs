//! Calls of a provider to our users, and their dialogs.

use sip_engine::hook::{HookSettings, OnFailure};
use sip_engine::numbers::Permission;

use super::people::house_with;
use super::*;
use crate::house::{House, book};

const ALICES: &str = "sip:alice@198.51.100.1:5060";

/// A provider calls, as it writes it.
pub(super) fn call_in(uri: &str, to: &str, transport: Transport) -> Request {
    let mut invite = request("INVITE", uri, transport);
    invite.via = invite.via.replace("198.51.100.1:5060", PROVIDER);
    invite.from = "<sip:0401@provider.example>;tag=g".into();
    invite.to = to.into();
    invite.call_id = format!("in-{uri}-{to}").replace(['<', '>', ':', '@', ';', ' '], "");
    invite.with(&format!(
        "Contact: <sip:gw@{PROVIDER};transport={}>\r\n",
        transport.uri_param()
    ))
}

fn receive(bed: &mut Bed, request: &Request, transport: Transport) -> Vec<Sent> {
    bed.receive(&flow(transport, PROVIDER), &request.text())
}

/// Whom a call of the provider reaches, or how it is answered.
fn reached(bed: &mut Bed, request: &Request) -> String {
    let sent = receive(bed, request, UDP);
    match sent.iter().find(|of| of.status() == 0) {
        Some(copy) => copy.uri().to_owned(),
        None => kinds(&sent).join(" "),
    }
}

fn bed(trunk: Trunk, transport: Transport) -> Bed {
    let mut bed = Bed::new(secured(transport, trunk));
    bed.register("sip:alice@example.org", ALICES, None);
    bed.register("sip:desk@example.org", "sip:desk@198.51.100.3", None);
    bed.register("sip:carol@example.org", "sip:carol@198.51.100.4", None);
    bed
}

#[test]
fn a_number_leads_to_its_user_in_whatever_form_it_comes() {
    let to = "<sip:x@provider.example>";
    for (uri, to, reaches) in [
        ("sip:+4930101@192.0.2.1", to, ALICES),
        ("sip:030101@192.0.2.1:5060", to, ALICES),
        ("sip:004930101@example.org", to, ALICES),
        ("sip:+4930101@provider.example", to, ALICES),
        // The registered contact: then To has the number.
        (
            "sip:4930100@192.0.2.1",
            "<sip:030101@provider.example>",
            ALICES,
        ),
        ("sip:4930100@192.0.2.1", "<tel:+4930101>", ALICES),
        // A user by his name.
        ("sip:carol@192.0.2.1", to, "sip:carol@198.51.100.4"),
    ] {
        let mut bed = bed(trunk(), UDP);
        let invite = call_in(uri, to, UDP);
        assert_eq!(reached(&mut bed, &invite), reaches, "{uri} {to}");
    }
}

#[test]
fn what_nobody_has_goes_to_whom_the_operator_names_or_is_refused() {
    let mut with_desk = trunk();
    with_desk.numbers.to = Some("desk".into());
    let contact = ("sip:4930100@192.0.2.1", "<sip:4930100@provider.example>");
    let number = (
        "sip:+49309@provider.example",
        "<sip:+49309@provider.example>",
    );
    for (uri, to) in [contact, number] {
        let invite = call_in(uri, to, UDP);
        let mut bed = bed(with_desk.clone(), UDP);
        assert_eq!(reached(&mut bed, &invite), "sip:desk@198.51.100.3", "{uri}");
        let mut bed = self::bed(trunk(), UDP);
        assert_eq!(reached(&mut bed, &invite), "404", "{uri}");
        let last = bed.refused.last().unwrap();
        assert_eq!(last.reason, Reason::NoUserForNumber);
    }
    // Who has the number and no phone.
    let mut bed = Bed::new(secured(UDP, trunk()));
    let invite = call_in("sip:+4930101@192.0.2.1", "<sip:x@y>", UDP);
    assert_eq!(reached(&mut bed, &invite), "480");
    assert_eq!(bed.refused.last().unwrap().reason, Reason::NotRegistered);
}

#[test]
fn a_user_whom_the_hook_names_is_called_and_nobody_in_his_place() {
    for (user, reaches) in [
        ("carol", "sip:carol@198.51.100.4"),
        ("+4930101", "sip:alice@198.51.100.5"),
        ("reception", "480"),
    ] {
        let mut with_desk = trunk();
        with_desk.numbers.to = Some("desk".into());
        let mut settings = secured(UDP, with_desk);
        settings.authenticate = Some(AuthSettings {
            tells_unknown_users: false,
            ..AuthSettings::default()
        });
        settings.hook = Some(HookSettings {
            asks: vec![sip_hook::Kind::Call],
            timeout_ms: 1_000,
            waiting_max: 10,
            on_failure: OnFailure::Reject,
            may_relay: false,
            headers: Vec::new(),
        });
        let mut bed = Bed::new(settings);
        bed.register("sip:desk@example.org", "sip:desk@198.51.100.3", None);
        bed.register("sip:carol@example.org", "sip:carol@198.51.100.4", None);
        bed.register("sip:alice@example.org", "sip:alice@198.51.100.5", None);
        let invite = call_in("sip:+4930101@192.0.2.1", "<sip:x@y>", UDP);
        assert!(receive(&mut bed, &invite, UDP).is_empty());
        let Some(Effect::AskHook { park, .. }) = bed.effects.pop() else {
            panic!("the hook was not asked");
        };
        let to = format!("sip:{user}@example.org");
        let body = serde_json::json!({"version": 1, "answers": [{"action": "route", "to": to}]});
        let answers = sip_hook::read_answers(body.to_string().as_bytes());
        let (_, answer) = answers.unwrap().remove(0);
        let answer = Ok(Arc::new(answer.unwrap()));
        let sent = bed.act(|s, now, out| s.handle_hook(now, park, answer, out));
        let last = sent.last().unwrap();
        let reached = match last.status() {
            0 => last.uri().to_owned(),
            status => status.to_string(),
        };
        assert_eq!(reached, reaches);
    }
}

#[test]
fn an_identity_that_is_to_be_withheld_leaves_no_trace() {
    for (privacy, shown) in [
        (
            "",
            vec!["P-Asserted-Identity: <sip:+49401234@provider.example>"],
        ),
        ("Privacy: id\r\n", vec![]),
    ] {
        let mut bed = bed(trunk(), UDP);
        let asserted = "P-Asserted-Identity: <sip:0401234@provider.example>\r\n";
        let invite = call_in("sip:+4930101@192.0.2.1", "<sip:x@y>", UDP)
            .with(&format!("{asserted}{privacy}"));
        let sent = receive(&mut bed, &invite, UDP);
        let copy = sent.iter().find(|of| of.status() == 0).unwrap();
        let lines = copy.text.lines();
        let lines: Vec<_> = lines.filter(|line| line.contains("401234")).collect();
        assert_eq!(lines, shown, "{}", copy.text);
    }
}

#[test]
fn a_provider_reaches_our_users_and_nobody_else() {
    let mut bed = bed(trunk(), UDP);
    for uri in [
        "sip:+441@192.0.2.1",
        "sip:bob@elsewhere.example",
        "tel:+441",
    ] {
        let answered = reached(&mut bed, &call_in(uri, "<sip:x@y>", UDP));
        assert!(
            ["403", "404", "480"].contains(&answered.as_str()),
            "{uri}: {answered}"
        );
        bed.effects.clear();
    }
    // And nobody speaks for our users.
    let mut claim = call_in("sip:+4930101@192.0.2.1", "<sip:x@y>", UDP);
    claim.from = "<sip:ceo@example.org>;tag=g".into();
    assert_eq!(reached(&mut bed, &claim), "403");
    assert_eq!(bed.refused.last().unwrap().reason, Reason::SpeaksForOthers);
}

#[test]
fn of_two_accounts_with_one_provider_the_one_counts_that_is_called() {
    let mut settings = secured(UDP, trunk());
    let mut other = trunk();
    (other.name, other.account) = ("other".into(), "4940200".into());
    other.numbers.users = vec![("+4940201".into(), "carol".into())];
    other.numbers.to = Some("desk".into());
    let mut group = settings.routes.groups[0].clone();
    (group.name, group.trunk) = ("other".into(), Some(Arc::new(other)));
    settings.routes.groups.push(group);
    let mut bed = Bed::new(settings);
    for (user, place) in [
        ("alice", ALICES),
        ("carol", "sip:carol@h.example"),
        ("desk", "sip:desk@h.example"),
    ] {
        bed.register(&format!("sip:{user}@example.org"), place, None);
    }
    for (uri, to, user) in [
        ("sip:4930100@192.0.2.1", "<sip:+4930101@p>", "alice"),
        ("sip:4940200@192.0.2.1", "<sip:+4940201@p>", "carol"),
        ("sip:4940200@192.0.2.1", "<sip:+49409@p>", "desk"),
        ("sip:+4940201@192.0.2.1", "<sip:x@p>", "carol"),
    ] {
        let sent = receive(&mut bed, &call_in(uri, to, UDP), UDP);
        let asks = bed
            .effects
            .drain(..)
            .any(|effect| matches!(effect, Effect::Resolve { .. }));
        match user {
            "alice" => assert_eq!(
                sent.iter().find(|of| of.status() == 0).unwrap().uri(),
                ALICES
            ),
            // A name is resolved first.
            _ => assert!(asks, "{uri} {to}: {:?}", kinds(&sent)),
        }
    }
}

#[test]
fn an_options_for_the_contact_is_answered_and_rings_nobody() {
    let mut bed = bed(trunk(), UDP);
    let mut options = call_in("sip:4930100@192.0.2.1", "<sip:4930100@192.0.2.1>", UDP);
    options.method = "OPTIONS".into();
    assert_eq!(reached(&mut bed, &options), "200");
    // A stranger's is no matter of the trunk's.
    let stranger = flow(UDP, "203.0.113.200:5060");
    options.call_id = "stranger".into();
    let sent = bed.receive(&stranger, &options.text());
    assert!(
        kinds(&sent).iter().all(|kind| kind != "200"),
        "{:?}",
        kinds(&sent)
    );
}

#[test]
fn the_phones_requests_of_a_call_from_outside_are_counted_and_challenged() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(secured(transport, trunk()));
        bed.register("sip:alice@example.org", ALICES, None);
        let invite = call_in(
            "sip:+4930101@192.0.2.1",
            "<sip:+4930101@provider.example>",
            transport,
        )
        .with("P-Asserted-Identity: <sip:0401@provider.example>\r\n");
        let sent = receive(&mut bed, &invite, transport);
        let copy = sent.iter().find(|of| of.status() == 0).unwrap();
        assert_eq!(cseq(copy), "1 INVITE");
        assert!(
            copy.text
                .contains("P-Asserted-Identity: <sip:+49401@provider.example>\r\n")
        );
        assert!(
            copy.header(HeaderName::From)
                .unwrap()
                .contains("0401@provider.example")
        );
        let contact = format!("Contact: <{ALICES}>\r\n");
        let ok = bed.receive(&answering(copy), &response(copy, 200, "b", &contact));
        let ok = only(out(ok));
        assert_eq!((ok.status(), cseq(&ok).as_str()), (200, "1 INVITE"));
        // The phone hangs up, with any number that it likes.
        let uri = format!("sip:gw@{PROVIDER};transport={}", transport.uri_param());
        let mut bye = request("BYE", &uri, copy.to.transport);
        bye.from = copy.header(HeaderName::To).unwrap() + ";tag=b";
        bye.to = invite.from.clone();
        (bye.call_id, bye.cseq) = (invite.call_id.clone(), 4_711);
        for route in copy.all(HeaderName::RecordRoute) {
            bye = bye.with(&format!("Route: {route}\r\n"));
        }
        let sent = bed.receive(&alice(copy.to.transport), &bye.text());
        let first = the(sent, "BYE");
        assert_eq!(
            (cseq(&first).as_str(), credentials(&first)),
            ("18844 BYE", None)
        );
        let again = the(challenge(&mut bed, &first, 407, "n1"), "BYE");
        assert_eq!(cseq(&again), "18845 BYE");
        assert!(
            credentials(&again)
                .unwrap()
                .contains("username=\"p4930100\"")
        );
        let sent = answer(&mut bed, &again, 200);
        assert_eq!(statuses(&sent), [200], "{transport:?}");
        assert_eq!(cseq(to_alice(&sent)[0]), "4711 BYE");
        // From stays the phone's: the provider knows it as it wrote it.
        assert_eq!(again.header(HeaderName::From).unwrap(), bye.from);
    }
}

/// A provider calls alice, who has this permission, at her phone by that URI; what that phone is
/// sent.
fn called_at(permission: Permission, uri: &str) -> (House, Request, Sent) {
    called_as(permission, uri, "<sip:+4930101@provider.example>")
}

fn called_as(permission: Permission, uri: &str, to: &str) -> (House, Request, Sent) {
    let book = book().permission("alice", permission);
    let mut house = house_with(book, trunk(), |_| {});
    house.phone("alice", 11);
    house.phone("102", 10);
    let invite = call_in(uri, to, UDP);
    let mut sent = receive(&mut house.bed, &invite, UDP);
    sent.retain(|sent| sent.status() == 0);
    (house, invite, only(sent))
}

fn called(permission: Permission) -> (House, Request, Sent) {
    called_at(permission, "sip:+4930101@192.0.2.1")
}

/// What a provider is told of a phone's 302.
fn moved(house: &mut House, copy: &Sent, contacts: &str) -> Vec<Sent> {
    let more = format!("Contact: {contacts}\r\n");
    let moved = response(copy, 302, "b", &more);
    out(house.bed.receive(&answering(copy), &moved))
}

#[test]
fn a_phones_3xx_shows_a_provider_nothing_that_its_user_may_not_call() {
    for (permission, contacts, status) in [
        (Permission::Premium, "<sip:0900123@provider.example>", 480),
        (Permission::National, "<tel:+1900555>", 480),
        (Permission::National, "<tel:+4930777>", 302),
        (Permission::Internal, "<tel:+4930777>", 480),
        (Permission::Internal, "<sip:bob@example.org>", 302),
        (
            Permission::Internal,
            "<sip:bob@example.org;maddr=203.0.113.77>",
            480,
        ),
        (
            Permission::Internal,
            "<sip:bob@example.org>;q=1, <tel:+4930777>;q=0.5",
            480,
        ),
    ] {
        // By her number, and by the contact that is registered with the provider.
        for uri in ["sip:+4930101@192.0.2.1", "sip:4930100@192.0.2.1"] {
            let (mut house, _, copy) = called_at(permission, uri);
            let told = only(moved(&mut house, &copy, contacts));
            assert_eq!(told.status(), status, "{permission:?} {contacts} {uri}");
            let is_shown = told.header(HeaderName::Contact).is_some();
            assert_eq!(is_shown, status == 302, "{}", told.text);
            if !is_shown {
                house.saw(Reason::ForwardRefused);
            }
        }
    }
}

#[test]
fn a_3xx_of_several_who_were_called_goes_as_far_as_the_least_of_them_may_call() {
    for (contact, is_shown) in [("<tel:+4930555>", true), ("<tel:+1900555>", false)] {
        let both = [
            ("sip:alice@example.org", 1_000),
            ("sip:bob@example.org", 1_000),
        ];
        let book = book()
            .permission("alice", Permission::National)
            .permission("bob", Permission::Premium)
            .alias("+4930777", &both);
        let mut house = house_with(book, trunk(), |_| {});
        house.phone("alice", 11);
        let invite = call_in("sip:+4930777@192.0.2.1", "<sip:x@provider.example>", UDP);
        let mut sent = receive(&mut house.bed, &invite, UDP);
        sent.retain(|sent| sent.status() == 0);
        let (first, second) = (&sent[0], &sent[1]);
        assert_eq!(sent.len(), 2);
        assert!(moved(&mut house, first, contact).is_empty());
        let busy = response(second, 486, "c", "");
        let told = only(out(house.bed.receive(&answering(second), &busy)));
        let shown = told.header(HeaderName::Contact);
        assert_eq!(shown.is_some(), is_shown, "{contact}");
    }
}

#[test]
fn where_nobody_is_asked_who_he_is_a_3xx_is_judged_as_little_as_a_call() {
    let book = book().permission("alice", Permission::Internal);
    let mut house = house_with(book, trunk(), |settings| settings.authenticate = None);
    house.phone("alice", 11);
    let to = "<sip:+4930101@provider.example>";
    let invite = call_in("sip:+4930101@192.0.2.1", to, UDP);
    let mut sent = receive(&mut house.bed, &invite, UDP);
    sent.retain(|sent| sent.status() == 0);
    let told = only(moved(&mut house, &only(sent), "<tel:+1900555>"));
    assert_eq!(told.status(), 302);
}

/// A phone's REFER within the call that it was sent: 0 where the provider gets it.
fn referred(house: &mut House, call: (&Request, &Sent), target: &str) -> u16 {
    let (invite, copy) = call;
    let uri = format!("sip:gw@{PROVIDER};transport={}", UDP.uri_param());
    let mut refer = request("REFER", &uri, UDP).with(&format!("Refer-To: {target}\r\n"));
    refer.from = copy.header(HeaderName::To).unwrap() + ";tag=b";
    refer.to = invite.from.clone();
    refer.call_id = invite.call_id.clone();
    for route in copy.all(HeaderName::RecordRoute) {
        refer = refer.with(&format!("Route: {route}\r\n"));
    }
    let sent = only(house.bed.receive(&answering(copy), &refer.text()));
    if sent.status() == 0 {
        assert_eq!(sent.to.remote.to_string(), PROVIDER, "{target}");
    }
    sent.status()
}

#[test]
fn whom_a_provider_has_called_refers_it_as_far_as_he_may_call() {
    use Permission::*;
    for (permission, targets) in [
        (
            National,
            &[
                ("<tel:+4930777>", 0),
                ("<sip:bob@example.org>", 0),
                ("<tel:+1900555>", 403),
                ("<sip:0900123@provider.example>", 403),
            ][..],
        ),
        (
            Internal,
            &[
                // A user of ours by a number, and a number that is nobody's.
                ("<sip:102@example.org>", 0),
                ("<sip:103@example.org>", 403),
                ("<tel:+4930777>", 403),
                ("<sip:bob@example.org;maddr=203.0.113.77>", 403),
                // The end of an attended transfer, by the contact that a phone or the gateway shows.
                ("<sip:bob@203.0.113.12:5060?Replaces=x>", 0),
                ("<sip:bob@203.0.113.12:5060>", 403),
                ("<sip:bob@203.0.113.77:5060?Replaces=x>", 403),
                ("<sip:gw@203.0.113.8:5070?Replaces=x>", 0),
                ("<sip:+4930777@203.0.113.8:5070?Replaces=x>", 403),
            ],
        ),
    ] {
        let (mut house, invite, copy) = called(permission);
        let contact = format!("Contact: <{}>\r\n", copy.uri());
        let ok = response(&copy, 200, "b", &contact);
        house.bed.receive(&answering(&copy), &ok);
        for (target, status) in targets {
            let said = referred(&mut house, (&invite, &copy), target);
            assert_eq!(said, *status, "{permission:?} {target}");
        }
    }
}

/// To of a call that was diverted names somebody else.
#[test]
fn who_was_called_and_is_not_in_to_refers_a_gateway_no_farther_than_any_user() {
    let to = "<sip:+49170999@provider.example>";
    let (mut house, invite, copy) = called_as(Permission::Internal, "sip:+4930101@192.0.2.1", to);
    let contact = format!("Contact: <{}>\r\n", copy.uri());
    house
        .bed
        .receive(&answering(&copy), &response(&copy, 200, "b", &contact));
    for (target, status) in [
        ("<tel:+1900555>", 403),
        ("<tel:+4930777>", 403),
        ("<sip:102@example.org>", 0),
    ] {
        let said = referred(&mut house, (&invite, &copy), target);
        assert_eq!(said, status, "{target}");
    }
}
