use super::*;
use sip_msg::Limits;

fn parse(text: &str) -> Message {
    Message::parse(text.as_bytes(), &Limits::default()).unwrap()
}

const INVITE: &str = "INVITE sip:bob@biloxi.com SIP/2.0\r\n\
    Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff, SIP/2.0/UDP other\r\n\
    v: SIP/2.0/UDP third\r\n\
    To: Bob <sip:bob@biloxi.com>\r\n\
    From: Alice <sip:alice@atlanta.com>;tag=88sja8x\r\n\
    Max-Forwards: 70\r\n\
    Route: <sip:one;lr>,\r\n <sip:two;lr>\r\n\
    Call-ID: 987asjd97y7atg\r\n\
    CSeq: 986759 INVITE\r\n\
    Route: <sip:three;lr>\r\n\
    Require: 100rel\r\n\
    Proxy-Require: foo\r\n\
    Content-Length: 4\r\n\r\nbody";

#[test]
fn the_ack_is_that_of_17_1_1_3() {
    let response = parse(
        "SIP/2.0 486 Busy Here\r\nVia: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff;received=1.2.3.4\r\n\
         t: Bob <sip:bob@biloxi.com>;tag=99sa0xk\r\nFrom: <sip:wrong@atlanta.com>;tag=x\r\nCall-ID: wrong\r\n\
         CSeq: 986759 INVITE\r\nContent-Length: 0\r\n\r\n",
    );
    let mut ack = Vec::new();
    assert!(write_ack(&parse(INVITE), &response, &mut ack));
    // RFC 3261 17.1.1.3: "The ACK request constructed by the client transaction MUST contain values for the
    // Call-ID, From, and Request-URI that are equal to the values of those header fields in the request
    // passed to the transport by the client transaction (call this the "original request"). The To header
    // field in the ACK MUST equal the To header field in the response being acknowledged, and therefore
    // will usually differ from the To header field in the original request by the addition of the tag
    // parameter. The ACK MUST contain a single Via header field, and this MUST be equal to the top Via
    // header field of the original request. The CSeq header field in the ACK MUST contain the same value
    // for the sequence number as was present in the original request, but the method parameter MUST be
    // equal to "ACK"."
    // RFC 3261 17.1.1.3: "If the INVITE request whose response is being acknowledged had Route header fields,
    // those header fields MUST appear in the ACK."
    assert_eq!(
        String::from_utf8(ack).unwrap(),
        "ACK sip:bob@biloxi.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff\r\n\
         Route: <sip:one;lr>,\r\n <sip:two;lr>\r\n\
         Route: <sip:three;lr>\r\n\
         Max-Forwards: 70\r\n\
         From: Alice <sip:alice@atlanta.com>;tag=88sja8x\r\n\
         t: Bob <sip:bob@biloxi.com>;tag=99sa0xk\r\n\
         Call-ID: 987asjd97y7atg\r\n\
         CSeq: 986759 ACK\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

#[test]
fn the_cancel_is_that_of_9_1() {
    let mut cancel = Vec::new();
    assert!(write_cancel(&parse(INVITE), b"", &mut cancel));
    // RFC 3261 9.1: "The Request-URI, Call-ID, To, the numeric part of CSeq, and From header fields in the
    // CANCEL request MUST be identical to those in the request being cancelled, including tags. A CANCEL
    // constructed by a client MUST have only a single Via header field value matching the top Via value in
    // the request being cancelled."
    // RFC 3261 9.1: "However, the method part of the CSeq header field MUST have a value of CANCEL."
    // RFC 3261 8.2.2.3: "Note that Require and Proxy-Require MUST NOT be used in a SIP CANCEL request,
    // or in an ACK request sent for a non-2xx response."
    // RFC 3261 9.1: "If the request being cancelled contains a Route header field, the CANCEL request MUST
    // include that Route header field's values."
    // RFC 3261 9.1: "The CANCEL request MUST NOT contain any Require or Proxy-Require header fields."
    assert_eq!(
        String::from_utf8(cancel).unwrap(),
        "CANCEL sip:bob@biloxi.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff\r\n\
         Route: <sip:one;lr>,\r\n <sip:two;lr>\r\n\
         Route: <sip:three;lr>\r\n\
         Max-Forwards: 70\r\n\
         From: Alice <sip:alice@atlanta.com>;tag=88sja8x\r\n\
         To: Bob <sip:bob@biloxi.com>\r\n\
         Call-ID: 987asjd97y7atg\r\n\
         CSeq: 986759 CANCEL\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

#[test]
fn what_is_not_whole_makes_no_request() {
    let response =
        parse("SIP/2.0 486 Busy Here\r\nCSeq: 986759 INVITE\r\nContent-Length: 0\r\n\r\n");
    let mut out = Vec::new();
    assert!(!write_ack(&parse(INVITE), &response, &mut out));
    assert!(!write_cancel(&response, b"", &mut out));
    assert!(out.is_empty());
}
