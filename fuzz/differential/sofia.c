/* Reads SIP messages from a pipe with sofia-sip's parser and says what it read:
 * see crates/signet-claims/src/other.rs for the form. An empty answer is a
 * message that sofia-sip does not take. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sofia-sip/msg.h>
#include <sofia-sip/msg_addr.h>
#include <sofia-sip/sip.h>
#include <sofia-sip/sip_header.h>
#include <sofia-sip/sip_parser.h>
#include <sofia-sip/su_wait.h>
#include <sofia-sip/url.h>

enum { MESSAGE_MAX = 1 << 20 };

static char answer[8 * MESSAGE_MAX];
static size_t answer_len;

static void put(const char *name, const char *value, size_t len)
{
  static const char digits[] = "0123456789abcdef";
  size_t name_len = strlen(name);
  if (answer_len + name_len + 2 * len + 2 > sizeof answer)
    return;
  memcpy(answer + answer_len, name, name_len);
  answer_len += name_len;
  answer[answer_len++] = '=';
  for (size_t at = 0; at < len; at++) {
    answer[answer_len++] = digits[(unsigned char)value[at] >> 4];
    answer[answer_len++] = digits[(unsigned char)value[at] & 15];
  }
  answer[answer_len++] = '\n';
}

static void put_text(const char *name, const char *text)
{
  put(name, text ? text : "", text ? strlen(text) : 0);
}

static void put_number(const char *name, unsigned long number)
{
  char text[32];
  snprintf(text, sizeof text, "%lu", number);
  put_text(name, text);
}

static void put_lower(const char *name, const char *text)
{
  char lower[4096];
  size_t len = 0;
  for (; text && text[len] && len < sizeof lower; len++)
    lower[len] = text[len] >= 'A' && text[len] <= 'Z' ? text[len] + 32 : text[len];
  put(name, lower, len);
}

static int hex(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

/* A user part without its escapes. */
static void put_unescaped(const char *name, const char *text)
{
  char plain[4096];
  size_t len = 0;
  for (; text && *text && len < sizeof plain; text++) {
    if (text[0] == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0) {
      plain[len++] = (char)(hex(text[1]) * 16 + hex(text[2]));
      text += 2;
    } else {
      plain[len++] = *text;
    }
  }
  put(name, plain, len);
}

static const char *named(const char *name, int number, const char *part)
{
  static char text[64];
  if (number < 0)
    snprintf(text, sizeof text, "%s-%s", name, part);
  else
    snprintf(text, sizeof text, "%s%d-%s", name, number, part);
  return text;
}

static void put_url(const char *name, int number, const url_t *url)
{
  if (url->url_type != url_sip && url->url_type != url_sips)
    return;
  put_text(named(name, number, "scheme"), url->url_type == url_sips ? "sips" : "sip");
  put_unescaped(named(name, number, "user"), url->url_user);
  put_lower(named(name, number, "host"), url->url_host);
  put_text(named(name, number, "port"), url->url_port);
}

static void put_addresses(const char *name, const sip_addr_t *from)
{
  put_text(named(name, -1, "tag"), from->a_tag);
  put_url(name, -1, from->a_url);
}

static int count_routes(const char *name, const sip_route_t *route)
{
  int count = 0;
  char plural[32];
  for (; route; route = route->r_next)
    put_url(name, count++, route->r_url);
  snprintf(plural, sizeof plural, "%ss", name);
  put_number(plural, count);
  return count;
}

/* Headers of which some could not be read are left out where they come in lists. */
static void describe(const sip_t *sip)
{
  int count = 0;
  if (sip->sip_request) {
    put_text("method", sip->sip_request->rq_method_name);
    put_url("uri", -1, sip->sip_request->rq_url);
  } else {
    put_number("status", sip->sip_status->st_status);
  }
  if (sip->sip_from)
    put_addresses("from", sip->sip_from);
  if (sip->sip_to)
    put_addresses("to", sip->sip_to);
  if (sip->sip_call_id)
    put_text("call-id", sip->sip_call_id->i_id);
  if (sip->sip_cseq) {
    put_number("cseq", sip->sip_cseq->cs_seq);
    put_text("cseq-method", sip->sip_cseq->cs_method_name);
  }
  if (sip->sip_max_forwards)
    put_number("max-forwards", sip->sip_max_forwards->mf_count);
  if (sip->sip_payload)
    put("body", sip->sip_payload->pl_data, sip->sip_payload->pl_len);
  else
    put("body", "", 0);
  if (sip->sip_error)
    return;
  for (const sip_via_t *via = sip->sip_via; via; via = via->v_next, count++) {
    put_text(named("via", count, "branch"), via->v_branch);
    put_lower(named("via", count, "host"), via->v_host);
    put_text(named("via", count, "port"), via->v_port);
  }
  put_number("vias", count);
  count_routes("route", sip->sip_route);
  count_routes("record-route", sip->sip_record_route);
  count = 0;
  for (const sip_contact_t *contact = sip->sip_contact; contact; contact = contact->m_next)
    put_url("contact", count++, contact->m_url);
  put_number("contacts", count);
}

static void read_message(const char *bytes, size_t len)
{
  msg_t *msg = msg_make(sip_default_mclass(), 0, bytes, (ssize_t)len);
  sip_t *sip = msg ? sip_object(msg) : NULL;
  answer_len = 0;
  if (sip && (sip->sip_request || sip->sip_status) && !(sip->sip_flags & MSG_FLG_ERROR))
    describe(sip);
  msg_destroy(msg);
}

static int whole(void *to, size_t len)
{
  return fread(to, 1, len, stdin) == len;
}

int main(void)
{
  static char message[MESSAGE_MAX + 1];
  unsigned char len_bytes[4];
  su_init();
  while (whole(len_bytes, 4)) {
    size_t len = (size_t)len_bytes[0] << 24 | (size_t)len_bytes[1] << 16 |
                 (size_t)len_bytes[2] << 8 | len_bytes[3];
    if (len > MESSAGE_MAX || !whole(message, len))
      return 1;
    message[len] = 0;
    read_message(message, len);
    for (int at = 0; at < 4; at++)
      len_bytes[at] = (unsigned char)(answer_len >> (24 - 8 * at));
    fwrite(len_bytes, 1, 4, stdout);
    fwrite(answer, 1, answer_len, stdout);
    fflush(stdout);
  }
  su_deinit();
  return 0;
}
