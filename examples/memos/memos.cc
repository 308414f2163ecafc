// Memos: whoever is to read one gets a mail, once. Its page is README.md.

#include <cstdlib>
#include <iostream>
#include <span>

#include <nlohmann/json.hpp>

#include "waybill/enqueue.h"

namespace {

using nlohmann::json;
using waybill::Connection;

struct Memo {
  std::string id{};
  std::string number{};
  std::string title{};
};

// A mail is an event like others, in the memo's own transaction. Its dedup_key says what it is: a second one about the
// same memo for the same person is not written, whoever tries, as long as keys are remembered (retention_dedup).
waybill::Event mail(const Memo& memo, const std::string& what, const std::string& recipient) {
  return {.topic = "mail." + what,
          .aggregate = {"memo", memo.id},
          .payload = json{{"recipient_email", recipient},
                          {"subject", "Memo " + memo.number + ": " + memo.title},
                          {"body", "There is a memo for you to read."}}
                         .dump(),
          .dedup_key = memo.id + "/" + what + "/" + recipient};
}

Memo create(Connection& db, const std::string& department, const std::string& title,
            std::span<const std::string> recipients) {
  Memo memo{.id = waybill::EventId::make().to_string(), .title = title};
  const auto rows = db.run(
      "INSERT INTO memos (id, department_code, title) VALUES ($1, $2, $3) RETURNING department_code || '-' || number",
      memo.id, department, title);
  memo.number = rows.text(0, 0);
  std::vector<waybill::Event> mails;
  for (const std::string& recipient : recipients) mails.push_back(mail(memo, "memo-created", recipient));
  waybill::enqueue(db, mails);  // All in one round trip.
  return memo;
}

// Only once for each, however often somebody presses the button.
void remind(Connection& db, const std::string& number, const std::string& recipient) {
  const auto rows = db.run("SELECT id, title FROM memos WHERE department_code || '-' || number = $1", number);
  if (rows.empty()) throw std::runtime_error("there is no memo " + number);
  waybill::enqueue(
      db, mail({.id = rows.text(0, 0), .number = number, .title = rows.text(0, 1)}, "memo-reminder", recipient));
}

int run(Connection& db, const std::vector<std::string>& words) {
  // What ends because of another transaction, as serializable ones do now and then, is begun again.
  const waybill::RetryOptions serializable{.transaction = {.isolation = waybill::Isolation::serializable}};
  const std::string command = words.empty() ? "" : words[0];
  if (command == "create" && words.size() >= 4) {
    const Memo memo = waybill::with_retries(
        db, [&](Connection& same) { return create(same, words[1], words[2], std::span(words).subspan(3)); },
        serializable);
    std::cout << memo.number << '\n';
  } else if (command == "remind" && words.size() == 3) {
    waybill::with_retries(
        db, [&](Connection& same) { remind(same, words[1], words[2]); }, serializable);
  } else {
    std::cerr << "memos create DEPARTMENT TITLE RECIPIENT…, remind MEMO RECIPIENT\n";
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* url = std::getenv("MEMOS_URL");
  if (url == nullptr) {
    std::cerr << "MEMOS_URL says where the database is, for a user with the role waybill_enqueue\n";
    return 2;
  }
  try {
    return run(*waybill::connect(url), {argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
