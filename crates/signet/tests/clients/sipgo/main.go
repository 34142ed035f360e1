// A telephone of sipgo's, driven by lines: what it is told comes by its input, what befalls it
// goes to its output. Its arguments: address, port, server, transport, user, password, domain.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
)

var (
	telling sync.Mutex
	current sync.Mutex
	// What ends the call that goes on.
	hangUp func(context.Context) error
)

func tell(words ...any) {
	telling.Lock()
	defer telling.Unlock()
	fmt.Println(words...)
}

func begin(end func(context.Context) error) {
	current.Lock()
	defer current.Unlock()
	hangUp = end
}

func main() {
	address, server, transport := os.Args[1], os.Args[3], os.Args[4]
	user, password, domain := os.Args[5], os.Args[6], os.Args[7]
	port, err := strconv.Atoi(os.Args[2])
	check(err)
	agent, err := sipgo.NewUA(sipgo.WithUserAgent(user), sipgo.WithUserAgentHostname(domain))
	check(err)
	listener, err := sipgo.NewServer(agent)
	check(err)
	place := fmt.Sprintf("%s:%d", address, port)
	options := []sipgo.ClientOption{sipgo.WithClientHostname(address), sipgo.WithClientPort(port)}
	if transport == "udp" {
		// Else it sends from whatever address the system chooses.
		options = append(options, sipgo.WithClientConnectionAddr(place))
	}
	client, err := sipgo.NewClient(agent, options...)
	check(err)

	parameters := sip.NewParams()
	parameters.Add("transport", transport)
	own := sip.ContactHeader{
		Address: sip.Uri{User: user, Host: address, Port: port, UriParams: parameters},
	}
	callers := sipgo.NewDialogServerCache(client, own)
	called := sipgo.NewDialogClientCache(client, own)
	offer := []byte("v=0\r\no=sipgo 1 1 IN IP4 " + address + "\r\ns=-\r\nc=IN IP4 " + address +
		"\r\nt=0 0\r\nm=audio 6090 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n")
	kind := sip.NewHeader("Content-Type", "application/sdp")

	listener.OnInvite(func(request *sip.Request, transaction sip.ServerTransaction) {
		tell("INCOMING", request.From())
		dialog, err := callers.ReadInvite(request, transaction)
		if err != nil {
			tell("ERROR", err)
			return
		}
		defer dialog.Close()
		begin(dialog.Bye)
		check(dialog.Respond(sip.StatusRinging, "Ringing", nil))
		check(dialog.Respond(sip.StatusOK, "OK", offer, kind))
		<-dialog.Context().Done()
		tell("CLOSED")
	})
	listener.OnAck(func(request *sip.Request, transaction sip.ServerTransaction) {
		if callers.ReadAck(request, transaction) == nil {
			tell("ESTABLISHED")
		}
	})
	listener.OnBye(func(request *sip.Request, transaction sip.ServerTransaction) {
		if callers.ReadBye(request, transaction) == nil {
			return
		}
		if err := called.ReadBye(request, transaction); err != nil {
			tell("ERROR", err)
		}
	})
	ctx := context.Background()
	go func() { check(listener.ListenAndServe(ctx, transport, place)) }()
	time.Sleep(300 * time.Millisecond)

	var edge sip.Uri
	check(sip.ParseUri("sip:"+server+";transport="+transport+";lr", &edge))
	route := &sip.RouteHeader{Address: edge}
	register := sip.NewRequest(sip.REGISTER, sip.Uri{Host: domain})
	register.AppendHeader(route)
	register.AppendHeader(&own)
	register.AppendHeader(sip.NewHeader("Expires", "300"))
	register.AppendHeader(&sip.ToHeader{Address: sip.Uri{User: user, Host: domain}})
	register.SetTransport(strings.ToUpper(transport))
	answer, err := client.Do(ctx, register)
	check(err)
	secret := sipgo.DigestAuth{Username: user, Password: password}
	if answer.StatusCode == sip.StatusUnauthorized {
		answer, err = client.DoDigestAuth(ctx, register, answer, secret)
		check(err)
	}
	tell("REGISTERED", answer.StatusCode)

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, uri, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "dial":
			go func() {
				var to sip.Uri
				check(sip.ParseUri(uri, &to))
				dialog, err := called.Invite(ctx, to, offer, route, kind)
				if err != nil {
					tell("ERROR", err)
					return
				}
				defer dialog.Close()
				wait := sipgo.AnswerOptions{Username: user, Password: password}
				if err := dialog.WaitAnswer(ctx, wait); err != nil {
					tell("CLOSED", err)
					return
				}
				check(dialog.Ack(ctx))
				begin(dialog.Bye)
				tell("ESTABLISHED")
				<-dialog.Context().Done()
				tell("CLOSED")
			}()
		case "hangup":
			current.Lock()
			end := hangUp
			current.Unlock()
			if err := end(ctx); err != nil {
				tell("ERROR", err)
			}
		}
	}
}

func check(err error) {
	if err != nil {
		tell("ERROR", err)
		os.Exit(1)
	}
}
