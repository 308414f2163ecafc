#include "sink/rabbitmq/examine.h"

#include <fmt/format.h>

#include "waybill/error.h"

#include "broker/rabbitmq/connection.h"
#include "net/expiry.h"
#include "sink/rabbitmq/prepare.h"

namespace waybill::rabbitmq {
namespace {

using Level = Finding::Level;

void examine_options(const RabbitmqOptions& options, std::vector<Finding>& findings) {
  const RabbitmqDeclare& declare = options.declare;
  if (declare.on && !declare.durable)
    findings.push_back({Level::problem, "declare.durable",
                        "what is declared is gone, with all events in it, when the "
                        "broker restarts",
                        "remove durable = false"});
  if (!declare.queue.empty() && declare.queue_type == "classic")
    findings.push_back(
        {Level::note, "declare.queue_type",
         fmt::format("queue '{}' is a classic queue: it is lost with the node that it is on", declare.queue),
         "use queue_type = \"quorum\""});
  if (!options.tls.on && !net::all_on_loopback(options.hosts))
    findings.push_back({Level::warning, "url", "password and events cross the network unencrypted", "use amqps://"});
}

void examine_broker(const RabbitmqOptions& options, const net::Host& host, const net::Patience& patience,
                    Steady deadline, std::vector<Finding>& findings) {
  Connection connection(options, host, patience, deadline);
  prepare(connection, options, deadline);
  std::string text = fmt::format("{} lets us publish", connection.where());
  if (options.exchange_is_fixed && !options.fixed_exchange.empty())
    text += fmt::format("; exchange '{}' is there", options.fixed_exchange);
  findings.push_back({Level::ok, "broker", text, ""});
  if (const auto until = connection.trusted_until()) {
    const net::ExpiryAdvice advice = net::advise_on_expiry(*until, system_clock().now());
    findings.push_back({advice.soon ? Level::warning : Level::ok, "certificates", advice.text, advice.remedy});
  }
  if (options.declare.queue.empty())
    findings.push_back({Level::note, "queues",
                        "which queues are bound, and how, is not to be seen from here; what fits "
                        "none is tried again, and said to be unroutable",
                        "use quorum queues: they survive the loss of a node"});
  if (!connection.blocked().empty())
    findings.push_back({Level::warning, "broker", fmt::format("it takes no messages now: {}", connection.blocked()),
                        "free memory or disk there"});
  connection.close(deadline);
}

}  // namespace

std::vector<Finding> examine(const RabbitmqOptions& options, Steady deadline) {
  std::vector<Finding> findings;
  examine_options(options, findings);
  Waker waker;
  const net::Patience patience(waker, [] { return false; });
  std::vector<Finding> away;
  for (std::size_t i = 0; i < options.hosts.size(); ++i) {
    // A host that does not answer leaves time for the others.
    const Steady now = std::chrono::steady_clock::now();
    const auto share = (deadline - now) / static_cast<std::int64_t>(options.hosts.size() - i);
    try {
      examine_broker(options, options.hosts[i], patience,
                     now + std::min<Steady::duration>(share, options.connect_timeout), findings);
      return findings;
    } catch (const Error& error) {
      // That it cannot be reached now may pass; what it refuses does not.
      away.push_back({error.remedy() == Remedy::fix_config ? Level::problem : Level::warning, "broker", error.what(),
                      error.remedy() == Remedy::fix_config ? "mend it, or remove the destination"
                                                           : "events wait until it can be reached"});
    }
  }
  findings.insert(findings.end(), away.begin(), away.end());
  return findings;
}

}  // namespace waybill::rabbitmq
