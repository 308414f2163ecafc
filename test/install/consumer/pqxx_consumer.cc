// pqxx_consumer: links what it takes to lend libpqxx's connections. Without a server it has nothing to lend.

#include <cstdio>

#include <waybill/enqueue.h>
#include <waybill/pqxx.h>

int main() {
  try {
    pqxx::connection connection("host=/nowhere");
    pqxx::work work(connection);
    waybill::enqueue(*waybill::borrow(work), {.topic = "a", .payload = "{}"});
  } catch (const pqxx::broken_connection&) {
    std::puts("no server");
  }
}
