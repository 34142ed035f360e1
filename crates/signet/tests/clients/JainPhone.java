import gov.nist.javax.sip.SipStackExt;
import gov.nist.javax.sip.clientauthutils.AccountManager;
import gov.nist.javax.sip.clientauthutils.AuthenticationHelper;
import gov.nist.javax.sip.clientauthutils.UserCredentials;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Properties;
import javax.sip.*;
import javax.sip.address.*;
import javax.sip.header.*;
import javax.sip.message.*;

/**
 * A telephone of JAIN-SIP's, driven by lines: what it is told comes by its input, what befalls it
 * goes to its output. Its arguments: address, port, server, its port, transport, user, password,
 * domain.
 */
public class JainPhone implements SipListener {
    final String address, transport, user, password, domain;
    final int port;
    final SipProvider provider;
    final AddressFactory addresses;
    final HeaderFactory headers;
    final MessageFactory messages;
    final AuthenticationHelper proofs;
    final RouteHeader route;
    Dialog dialog;
    ClientTransaction dialling;
    long cseq = 1;

    JainPhone(String[] given) throws Exception {
        address = given[0];
        port = Integer.parseInt(given[1]);
        transport = given[4];
        user = given[5];
        password = given[6];
        domain = given[7];
        SipFactory factory = SipFactory.getInstance();
        factory.setPathName("gov.nist");
        Properties properties = new Properties();
        properties.setProperty("javax.sip.STACK_NAME", user);
        properties.setProperty("gov.nist.javax.sip.TRACE_LEVEL", "0");
        SipStack stack = factory.createSipStack(properties);
        addresses = factory.createAddressFactory();
        headers = factory.createHeaderFactory();
        messages = factory.createMessageFactory();
        provider = stack.createSipProvider(stack.createListeningPoint(address, port, transport));
        provider.addSipListener(this);
        AccountManager accounts = (challenged, realm) -> new UserCredentials() {
            public String getUserName() { return user; }
            public String getPassword() { return password; }
            public String getSipDomain() { return domain; }
        };
        proofs = ((SipStackExt) stack).getAuthenticationHelper(accounts, headers);
        SipURI edge = (SipURI) addresses.createURI(
                "sip:" + given[2] + ":" + given[3] + ";transport=" + transport + ";lr");
        route = headers.createRouteHeader(addresses.createAddress(edge));
    }

    static synchronized void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }

    ContactHeader contact() throws Exception {
        URI uri = addresses.createURI(
                "sip:" + user + "@" + address + ":" + port + ";transport=" + transport);
        return headers.createContactHeader(addresses.createAddress(uri));
    }

    Request request(String method, String uri, String to) throws Exception {
        ArrayList<ViaHeader> via = new ArrayList<>();
        via.add(headers.createViaHeader(address, port, transport, null));
        Address own = addresses.createAddress(addresses.createURI("sip:" + user + "@" + domain));
        Request request = messages.createRequest(
                addresses.createURI(uri), method, provider.getNewCallId(),
                headers.createCSeqHeader(cseq++, method),
                headers.createFromHeader(own, Long.toHexString(System.nanoTime())),
                headers.createToHeader(addresses.createAddress(addresses.createURI(to)), null),
                via, headers.createMaxForwardsHeader(70));
        request.addHeader(route);
        request.addHeader(contact());
        return request;
    }

    byte[] offer() {
        return ("v=0\r\no=jain 1 1 IN IP4 " + address + "\r\ns=-\r\nc=IN IP4 " + address
                + "\r\nt=0 0\r\nm=audio 6090 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n").getBytes();
    }

    void describe(Message message) throws Exception {
        message.setContent(offer(), headers.createContentTypeHeader("application", "sdp"));
    }

    ClientTransaction send(Request request) throws Exception {
        ClientTransaction transaction = provider.getNewClientTransaction(request);
        transaction.sendRequest();
        return transaction;
    }

    void register() throws Exception {
        String own = "sip:" + user + "@" + domain;
        Request request = request(Request.REGISTER, "sip:" + domain, own);
        request.addHeader(headers.createExpiresHeader(300));
        send(request);
    }

    void obey(String line) throws Exception {
        String[] words = line.split(" ");
        switch (words[0]) {
            case "dial":
                Request invite = request(Request.INVITE, words[1], words[1]);
                describe(invite);
                dialling = send(invite);
                break;
            case "hangup":
                Request bye = dialog.createRequest(Request.BYE);
                dialog.sendRequest(provider.getNewClientTransaction(bye));
                break;
            default:
                tell("ERROR " + line);
        }
    }

    public void processRequest(RequestEvent event) {
        Request request = event.getRequest();
        try {
            ServerTransaction transaction = event.getServerTransaction();
            if (request.getMethod().equals(Request.ACK)) {
                tell("ESTABLISHED");
                return;
            }
            if (transaction == null) {
                transaction = provider.getNewServerTransaction(request);
            }
            Response answer = messages.createResponse(Response.OK, request);
            if (request.getMethod().equals(Request.INVITE)) {
                tell("INCOMING " + request.getHeader("From"));
                dialog = transaction.getDialog();
                String tag = Long.toHexString(System.nanoTime());
                Response ringing = messages.createResponse(Response.RINGING, request);
                ((ToHeader) ringing.getHeader("To")).setTag(tag);
                ringing.addHeader(contact());
                transaction.sendResponse(ringing);
                ((ToHeader) answer.getHeader("To")).setTag(tag);
                answer.addHeader(contact());
                describe(answer);
            }
            transaction.sendResponse(answer);
            if (request.getMethod().equals(Request.BYE)) {
                tell("CLOSED");
            }
        } catch (Exception error) {
            tell("ERROR " + error);
        }
    }

    public void processResponse(ResponseEvent event) {
        Response response = event.getResponse();
        int status = response.getStatusCode();
        String method = ((CSeqHeader) response.getHeader("CSeq")).getMethod();
        try {
            if (status == 401 || status == 407) {
                ClientTransaction again = proofs.handleChallenge(
                        response, event.getClientTransaction(), provider, 5);
                again.sendRequest();
                dialling = again;
            } else if (status < 200) {
                return;
            } else if (method.equals(Request.REGISTER)) {
                tell((status == 200 ? "REGISTERED " : "UNREGISTERED ") + status);
            } else if (method.equals(Request.INVITE) && status < 300) {
                dialog = event.getDialog();
                long number = ((CSeqHeader) response.getHeader("CSeq")).getSeqNumber();
                dialog.sendAck(dialog.createAck(number));
                tell("ESTABLISHED");
            } else if (method.equals(Request.INVITE) || method.equals(Request.BYE)) {
                tell("CLOSED " + status);
            }
        } catch (Exception error) {
            tell("ERROR " + error);
        }
    }

    public void processTimeout(TimeoutEvent event) {
        tell("TIMEOUT");
    }

    public void processIOException(IOExceptionEvent event) {
        tell("ERROR io " + event.getHost());
    }

    public void processTransactionTerminated(TransactionTerminatedEvent event) {}

    public void processDialogTerminated(DialogTerminatedEvent event) {}

    public static void main(String[] given) throws Exception {
        JainPhone phone = new JainPhone(given);
        phone.register();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            phone.obey(line);
        }
        System.exit(0);
    }
}
