#!/usr/bin/python3
"""producer.py SKU AMOUNT: the shop sells something, and whoever wants to know will.

All that it knows of Waybill is SQL: a function, or a plain INSERT, in the transaction that changes the stock."""
import json
import os
import sys

import psycopg2


def sell(cursor, sku, amount):
    # First the row that it is about: the UPDATE locks it, so that what happens to a SKU has an order. Then the event.
    cursor.execute("UPDATE stock SET amount = amount - %s WHERE sku = %s RETURNING amount", (amount, sku))
    if cursor.rowcount == 0:
        raise LookupError(f"there is no {sku}")
    left = cursor.fetchone()[0]
    cursor.execute("SELECT waybill.enqueue('stock.sold', %s, aggregate_type => 'sku', aggregate_id => %s)",
                   (json.dumps({"sku": sku, "amount": amount}), sku))
    if left < 10:
        # The same as a table: with columns instead of arguments, and no id in return.
        cursor.execute("INSERT INTO waybill.event (topic, payload, aggregate_type, aggregate_id)"
                       " VALUES ('stock.low', %s, 'sku', %s)", (json.dumps({"sku": sku, "left": left}), sku))
    return left


def main():
    sku, amount = sys.argv[1], int(sys.argv[2])
    connection = psycopg2.connect(os.environ["DATABASE_URL"], user="shop")
    try:
        with connection, connection.cursor() as cursor:  # commits; or rolls back, stock and events
            left = sell(cursor, sku, amount)
    except (psycopg2.errors.CheckViolation, LookupError) as error:
        sys.exit(f"not sold: {str(error).splitlines()[0]}")
    print(f"sold {amount} {sku}, {left} left")


if __name__ == "__main__":
    main()
