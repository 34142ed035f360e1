# The two commands of the README are `make demo` and `make test`.
SHELL := /bin/bash
CARGO ?= cargo

.PHONY: deb pgo attacks tls-resumption help demo test lint format clippy deny built unit legacy musts fuzz bench bench-load bench-tls bench-auth tools tools-build tools-bench tools-bench-auth tools-fuzz

help:
	@echo "make demo    build, start the server, drive real calls, draw the result"
	@echo "make test    everything that can fail: format, lints, licences, unit, simulation, interoperation"
	@echo "make deb     the Debian package, in target/deb"
	@echo "make pgo     signet built by a profile of its own work, in target/pgo: a call costs less; a quarter of an hour"
	@echo "make legacy  the second TLS engine, which a build has on request only (make test does it too)"
	@echo "make attacks   attacks by name on Signet and Kamailio, on this machine: what got through, what callers felt; ATTACKS='--only token --quick'"
	@echo "make bench   CPU per call beside Kamailio and the floor, and the small benches"
	@echo "make bench-load   what the load generator itself reaches, beside SIPp, and what servers take at its rates"
	@echo "make tls-resumption   which TLS sessions resume, and where, with openssl at the other end"
	@echo "make fuzz    every fuzz target for SECONDS=60, from its corpus (needs a nightly compiler and cargo-fuzz)"
	@echo "make bench-tls    what TLS costs: handshakes, resumption, idle connections, storms; BENCH='--only CASE --quick'"
	@echo "make bench-auth   what authentication costs with users in a database 30 ms away; BENCH='--only CASE --quick'"

# The Debian package, in target/deb.
deb:
	$(CARGO) build --release -p signet
	scripts/deb target/release/signet target/deb

# By a profile of its own work (docs/decisions/0238-a-build-by-profile.md).
pgo:
	scripts/pgo

demo:
	$(CARGO) build --release -p signet -p signet-bench
	target/release/signet-bench demo

# The tools come while the compiler works: for minutes they wait for registries and disks.
test:
	$(MAKE) --no-print-directory format deny
	$(MAKE) --no-print-directory -j2 built tools
	$(MAKE) --no-print-directory unit legacy musts

lint: format clippy deny

format:
	$(CARGO) fmt --all -- --check

# The lints alone, sooner than a build, with the second TLS engine. `make test` has them where it
# builds (docs/decisions/0244-tests-are-built-with-lints.md).
clippy: tools-build
	$(CARGO) clippy --profile test --workspace --features ipsec/legacy-tls,signet/legacy-tls,sip-net/legacy-tls --all-targets -- -D warnings

deny: tools-build
	scripts/tools cargo-deny
	$(CARGO) deny check licenses bans sources

built: tools-build
	$(CARGO) xtask test --lint --no-run

unit: tools-build
	set -e; other=$$(scripts/other-parser); SIGNET_OTHER_PARSER=$$other $(CARGO) xtask test --lint

# The second TLS engine, which a build has on request only.
legacy: tools-build
	$(CARGO) xtask test --lint --legacy

musts:
	$(CARGO) xtask musts

SECONDS ?= 60
fuzz: tools-fuzz
	SECONDS_EACH=$(SECONDS) scripts/fuzz $(FUZZ)

bench: tools-bench
	$(CARGO) build --release -p signet -p signet-bench
	$(CARGO) bench -p sip-msg -p sip-txn -p sip-auth -p sip-engine -p sip-store
	target/release/signet-bench serve $(BENCH)

bench-load: tools-bench
	$(CARGO) build --release -p signet -p signet-bench
	scripts/bench-load

bench-tls: tools-bench
	$(CARGO) build --release -p signet -p signet-bench
	target/release/signet-bench tls $(BENCH)

bench-auth: tools-bench-auth
	$(CARGO) build --release -p signet -p signet-bench
	target/release/signet-bench auth $(BENCH)

# Attacks on servers that it starts on this machine's loopback (docs/ATTACKS.md).
attacks: tools-bench
	$(CARGO) build --release -p signet -p signet-attacks
	target/release/signet-attacks --signet target/release/signet $(ATTACKS)

# Which TLS sessions resume, and where, told by openssl from outside.
tls-resumption: tools
	$(CARGO) build --release -p signet
	scripts/tls-resumption

tools: tools-build
	scripts/tools sip-tester:sipp baresip-core:baresip linphone-cli:linphone-daemon nodejs:node npm:npm default-jdk-headless:javac maven:mvn "python3-venv:/usr/lib/python3*/ensurepip/__init__.py" coturn:turnutils_stunclient rtpengine-daemon:rtpengine nftables:nft chromium:chromium kamailio:kamailio "kamailio-mysql-modules:/usr/lib/*/kamailio/modules/db_mysql.so" "kamailio-tls-modules:/usr/lib/*/kamailio/modules/tls.so" pkg-config:pkg-config libsofia-sip-ua-dev:/usr/include/sofia-sip-1.12/sofia-sip/sip.h mariadb-server:mariadbd "postgresql:/usr/lib/postgresql/*/bin/postgres" redis-server:redis-server redis-tools:redis-cli slapd:slapd freeradius:freeradius linux-perf:perf fail2ban:fail2ban-regex tshark:tshark curl:curl prometheus:promtool systemd:systemd-analyze iproute2:ip man-db:man tmux:tmux binutils:readelf dpkg-dev:dpkg-shlibdeps tzdata:/usr/share/zoneinfo/Europe/Berlin python3:python3 python3-scapy:/usr/lib/python3/dist-packages/scapy/layers/ipsec.py python3-cryptography:/usr/lib/python3/dist-packages/cryptography/__init__.py iperf3:iperf3 stunnel4:stunnel openvpn:openvpn strongswan-starter:/usr/lib/ipsec/starter strongswan-charon:/usr/lib/ipsec/charon libcharon-extra-plugins:/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so
	scripts/phones

tools-build:
	scripts/tools perl:perl make:make gcc:cc openssl:openssl

tools-bench:
	scripts/tools sip-tester:sipp kamailio:kamailio "kamailio-tls-modules:/usr/lib/*/kamailio/modules/tls.so" openssl:openssl

tools-bench-auth:
	scripts/tools kamailio:kamailio "kamailio-mysql-modules:/usr/lib/*/kamailio/modules/db_mysql.so" mariadb-server:mariadbd "postgresql:/usr/lib/postgresql/*/bin/initdb" redis-server:redis-server

tools-fuzz:
	scripts/tools gcc:cc pkg-config:pkg-config libsofia-sip-ua-dev:/usr/include/sofia-sip-1.12/sofia-sip/sip.h
