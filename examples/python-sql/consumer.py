#!/usr/bin/python3
"""consumer.py < EVENTS: the warehouse packs a parcel for everything sold, once.

Reads events as lines of JSON. Whatever brings them may bring them again: a relay after a crash, a person who rewinds, or
you, who run this twice over one file. The inbox knows what was handled, in the same transaction as the parcel."""
import json
import os
import sys

import psycopg2


def handle(connection, event):
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT waybill.first_time('warehouse', %s)", (event["id"],))
        if not cursor.fetchone()[0]:
            return "known"
        if event["type"] != "stock.sold":
            return "not ours"
        sold = event["payload"]
        cursor.execute("INSERT INTO parcel (event, sku, amount) VALUES (%s, %s, %s)",
                       (event["id"], sold["sku"], sold["amount"]))
        return f"packed {sold['amount']} {sold['sku']}"
    # Here it is committed: a broker's client would acknowledge the message now, whatever was returned.


def main():
    connection = psycopg2.connect(os.environ["DATABASE_URL"], user="warehouse")
    for line in sys.stdin:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # A relay died while it wrote this line: its event comes again.
        print(handle(connection, event), flush=True)


if __name__ == "__main__":
    main()
