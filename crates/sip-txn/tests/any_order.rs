//! Whatever comes in whatever order: nothing panics, the counts are right, and
//! time ends everything that the cores do not hold.

use crate::support::{Bed, TCP, UDP, request, response_to};
use proptest::prelude::*;
use sip_msg::{Method, Transport};
use sip_txn::{ClientId, Event, Incoming, Live, ServerId};

#[derive(Clone, Debug)]
enum Step {
    Start {
        transport: Transport,
        method: Method,
    },
    Reserve,
    Response {
        which: usize,
        status: u16,
        to_cancel: bool,
    },
    Cancel {
        which: usize,
    },
    ReleaseClient {
        which: usize,
    },
    Request {
        transport: Transport,
        method: Method,
        branch: u8,
    },
    Respond {
        which: usize,
        status: u16,
    },
    ReleaseServer {
        which: usize,
    },
    Fail {
        which: usize,
    },
    Pass {
        by_ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let transport = prop_oneof![Just(UDP), Just(TCP)];
    let method = prop_oneof![
        Just(Method::Invite),
        Just(Method::Invite),
        Just(Method::Bye),
        Just(Method::Register)
    ];
    let any_method = prop_oneof![
        3 => Just(Method::Invite),
        2 => Just(Method::Ack),
        2 => Just(Method::Cancel),
        1 => Just(Method::Bye)
    ];
    let status = prop_oneof![100u16..110, Just(180u16), Just(200u16), 100u16..700];
    let which = any::<usize>();
    prop_oneof![
        3 => (transport.clone(), method).prop_map(|(transport, method)| Step::Start { transport, method }),
        1 => Just(Step::Reserve),
        6 => (which, status.clone(), any::<bool>())
            .prop_map(|(which, status, to_cancel)| Step::Response { which, status, to_cancel }),
        2 => which.prop_map(|which| Step::Cancel { which }),
        1 => which.prop_map(|which| Step::ReleaseClient { which }),
        6 => (transport, any_method, 0u8..6)
            .prop_map(|(transport, method, branch)| Step::Request { transport, method, branch }),
        5 => (which, status).prop_map(|(which, status)| Step::Respond { which, status }),
        1 => which.prop_map(|which| Step::ReleaseServer { which }),
        2 => which.prop_map(|which| Step::Fail { which }),
        4 => prop_oneof![0u64..1_000, 0u64..40_000].prop_map(|by_ms| Step::Pass { by_ms }),
    ]
}

fn choose<T: Clone>(from: &[T], which: usize) -> Option<T> {
    from.get(which.checked_rem(from.len())?).cloned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_order_of_events_confuses_the_layer(steps in proptest::collection::vec(step(), 1..120)) {
        let mut bed = Bed::new();
        let mut clients: Vec<(ClientId, String)> = Vec::new();
        let mut servers: Vec<(ServerId, String)> = Vec::new();
        let mut cookies: Vec<u64> = Vec::new();
        let mut ended: Vec<Event> = Vec::new();
        for step in steps {
            match step {
                Step::Start { transport, method } => clients.push(bed.start(transport, method)),
                Step::Reserve => {
                    let id = bed.txn.reserve_client().unwrap();
                    let mut branch = Vec::new();
                    bed.txn.write_branch(id, &mut branch);
                    clients.push((id, request("BYE", &String::from_utf8(branch).unwrap(), "")));
                }
                Step::Response { which, status, to_cancel } => {
                    if let Some((_, request)) = choose(&clients, which) {
                        let mut response = response_to(&request, status);
                        if to_cancel {
                            response = response.replace("CSeq: 1 INVITE", "CSeq: 1 CANCEL");
                        }
                        bed.answer_bytes(&response);
                    }
                }
                Step::Cancel { which } => {
                    if let Some((id, _)) = choose(&clients, which) {
                        bed.txn.cancel(bed.now_ms, id, &mut bed.out);
                    }
                }
                Step::ReleaseClient { which } => {
                    if let Some((id, _)) = choose(&clients, which) {
                        bed.txn.release_client(id);
                    }
                }
                Step::Request { transport, method, branch } => {
                    let text = request(method.token(), &format!("z9hG4bK{branch}"), "");
                    match bed.receive(transport, &text) {
                        Incoming::New(id) | Incoming::Cancel { cancel: id, .. } => servers.push((id, text)),
                        Incoming::Ack { .. } => prop_assert_eq!(method, Method::Ack),
                        Incoming::Absorbed => {}
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
                Step::Respond { which, status } => {
                    if let Some((id, request)) = choose(&servers, which) {
                        bed.respond(id, &request, status);
                    }
                }
                Step::ReleaseServer { which } => {
                    if let Some((id, _)) = choose(&servers, which) {
                        bed.txn.release_server(id);
                    }
                }
                Step::Fail { which } => {
                    if let Some(cookie) = choose(&cookies, which) {
                        bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
                    }
                }
                Step::Pass { by_ms } => cookies.extend(bed.pass(by_ms).iter().map(|sent| sent.cookie)),
            }
            cookies.extend(bed.sent().iter().map(|sent| sent.cookie));
            ended.extend(bed.events());
        }
        // What the cores hold, they give back; the rest ends by time.
        for (id, _) in &clients {
            if bed.txn.client_state(*id).is_some_and(|state| {
                matches!(state, sip_txn::ClientState::Reserved | sip_txn::ClientState::Proceeding)
            }) {
                bed.txn.release_client(*id);
            }
        }
        for (id, text) in &servers {
            if text.starts_with("INVITE") && bed.txn.server_state(*id) == Some(sip_txn::ServerState::Proceeding) {
                bed.txn.release_server(*id);
            }
        }
        bed.pass(40_000);
        ended.extend(bed.events());
        prop_assert_eq!(bed.txn.live(), Live::default());
        prop_assert_eq!(bed.txn.next_deadline_ms(), None);
        // No transaction ends twice.
        let mut clients_ended: Vec<String> = ended
            .iter()
            .filter_map(|event| match event {
                Event::ClientTimeout { client, .. }
                | Event::ClientFailed { client, .. }
                | Event::ClientTerminated { client, .. } => Some(format!("{client:?}")),
                _ => None,
            })
            .collect();
        let count = clients_ended.len();
        clients_ended.sort();
        clients_ended.dedup();
        prop_assert_eq!(count, clients_ended.len());
    }
}
