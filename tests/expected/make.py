#!/usr/bin/env python3
"""Computes what the files of queries/ have to print, from the same data and without Weir: python3 make.py

Where a query reads a file, SQLite answers in its own words; where it reads statements, what is published follows
from the statements by SQL's rules and those of retention, and is written out here. A result is a header, its rows, and
an empty line.
"""

import csv
import pathlib
import sqlite3

HERE = pathlib.Path(__file__).parent
DATA = HERE.parent.parent / "queries" / "data"


def database():
    db = sqlite3.connect(":memory:")
    for table in ["logins", "clicks"]:
        with open(DATA / f"{table}.csv", newline="") as file:
            rows = list(csv.reader(file))
        db.execute(f"CREATE TABLE {table} ({', '.join(rows[0])})")
        db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows[1:])
    return db


def write(name, *results):
    with open(HERE / f"{name}.txt", "w", newline="") as file:
        for i, (header, rows) in enumerate(results):
            if i > 0:
                file.write("\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)


def ask(db, sql):
    cursor = db.execute(sql)
    return [column[0] for column in cursor.description], cursor.fetchall()


def dau(db):
    # the debut by a self-join, not by a window
    sql = """SELECT l.t_date, COUNT(DISTINCT l.user_id) AS active_users,
                    COUNT(DISTINCT CASE WHEN d.debut = l.t_date THEN l.user_id END) AS new_users
             FROM logins AS l JOIN (SELECT user_id, MIN(t_date) AS debut FROM logins GROUP BY user_id) AS d USING (user_id)
             GROUP BY l.t_date ORDER BY l.t_date"""
    return [ask(db, sql)]


def clicks(db):
    db.execute("""CREATE TEMP TABLE sessions AS SELECT session_id, COUNT(*) AS pages, MIN(at) AS began, MAX(url = '/checkout') AS bought
                  FROM clicks GROUP BY session_id""")
    lengths = "SELECT pages, COUNT(*) AS sessions, SUM(bought) AS bought FROM sessions GROUP BY pages ORDER BY pages"
    pages = """SELECT url, COUNT(*) AS views, COUNT(DISTINCT session_id) AS sessions,
                      COUNT(DISTINCT CASE WHEN session_id IN (SELECT session_id FROM clicks WHERE url = '/checkout') THEN session_id END)
                          AS sessions_that_bought
               FROM clicks GROUP BY url ORDER BY views DESC, url"""
    quick = "SELECT session_id, pages FROM sessions WHERE bought = 1 AND pages <= 3 ORDER BY began, session_id LIMIT 5"
    return [ask(db, lengths), ask(db, pages), ask(db, quick)]


def top_n(db):
    # a row is among the first n if fewer than n come before it
    db.execute("CREATE TEMP TABLE visits AS SELECT substr(at, 1, 10) AS day, url, COUNT(*) AS views FROM clicks GROUP BY 1, 2")
    top = """SELECT day, place, url, views FROM
                 (SELECT v.*, 1 + (SELECT COUNT(*) FROM visits AS b WHERE b.day = v.day AND (b.views > v.views OR (b.views = v.views AND b.url < v.url)))
                      AS place FROM visits AS v)
             WHERE place <= 3 ORDER BY day, place"""
    db.execute("CREATE TEMP TABLE lengths AS SELECT MIN(substr(at, 1, 10)) AS day, session_id, COUNT(*) AS pages FROM clicks GROUP BY session_id")
    longest = """SELECT day, session_id, pages FROM lengths AS l
                 WHERE (SELECT COUNT(*) FROM lengths AS b WHERE b.day = l.day AND b.pages > l.pages) < 2
                 ORDER BY day, pages DESC, session_id"""
    return [ask(db, top), ask(db, longest)]


def grouping_sets(db):
    # weeks begin on Mondays; strftime's %w is 0 on Sundays
    db.execute("""CREATE TEMP TABLE weekly AS
                  SELECT date(t_date, '-' || ((strftime('%w', t_date) + 6) % 7) || ' days') AS week, platform, user_id FROM logins""")
    figures = "COUNT(*) AS logins, COUNT(DISTINCT user_id) AS users"
    sets = f"""SELECT week, platform, logins, users FROM (
                   SELECT 0 AS w, 0 AS p, week, platform, {figures} FROM weekly GROUP BY week, platform
                   UNION ALL SELECT 0, 1, week, 'all', {figures} FROM weekly GROUP BY week
                   UNION ALL SELECT 1, 0, 'all weeks', platform, {figures} FROM weekly GROUP BY platform
                   UNION ALL SELECT 1, 1, 'all weeks', 'all', {figures} FROM weekly)
               ORDER BY w, week, p, platform"""
    pairs, weeks = (db.execute(f"SELECT COUNT(*) FROM (SELECT DISTINCT {what} FROM weekly)").fetchone()[0] for what in ["week, platform", "week"])
    return [ask(db, sets), (["rows_of_a_rollup"], [[pairs + weeks + 1]])]


def join():
    invoices = [(1, "Anna", 55), (3, "Bob", 5)]
    published = [
        # within a step, changes are ordered by key, a key's removal before its insertion
        ("+I", 1, "(unknown)", 50), ("+I", 2, "(unknown)", 20),
        ("-U", 1, "(unknown)", 50), ("+U", 1, "Ann", 50),
        ("-U", 2, "(unknown)", 20), ("+U", 2, "Bob", 20), ("+I", 3, "Bob", 5),
        ("-U", 1, "Ann", 50), ("+U", 1, "Anna", 50),
        ("-U", 1, "Anna", 50), ("+U", 1, "Anna", 55),
        ("-D", 2, "Bob", 20),
    ]
    return [(["id", "name", "amount"], invoices), (["op", "id", "name", "amount"], published)]


def shared_view():
    published = [
        ("+I", "apple", 5), ("+I", "pear", 1),
        ("-U", "pear", 1), ("+U", "pear", 5),
        ("-U", "apple", 5), ("+U", "apple", 2),
    ]
    copy = (["op", "fruit", "total"], published)
    return [copy, copy, (["arrangements_of_the_second_copy"], [[0]]), (["readers_of_the_sums"], [[2]])]


def second(n):
    return f"1970-01-01 00:{n // 60:02}:{n % 60:02}"


def two_memories():
    # Ann, Bob: new on the 5th; Cid: on the 6th; Dan: on the 12th. Ann and Bob were last there on the 6th and the 5th.
    header = ["op", "t_date", "active_users", "new_users"]
    until_the_9th = [("+I", "2026-01-05", 2, 2), ("+I", "2026-01-06", 2, 1)]

    def on_the_12th(before, after):
        return [("+I", "2026-01-12", 2, before), ("-U", "2026-01-12", 2, before), ("+U", "2026-01-12", 3, after)]

    report = until_the_9th + on_the_12th(1, 1)
    coarse = until_the_9th + on_the_12th(2, 3)
    return [(header, report), (header, coarse), (header[1:], [("2026-01-12", 3, 1)])]


def join_sides():
    # deadlines: top at 120 s, side at 220 s, Ann's click at 120 s, Bob's at 160 s; by the second view's 60 s, 160 s, 135 s, 175 s
    header = ["op", "at", "ad", "place", "who"]
    by_both = [("+I", second(100), 1, "side", "ann"), ("+I", second(130), 1, "side", "bob")]
    published = [("+I", second(90), 1, "top", "ann")] + by_both
    hinted = by_both + [("+I", second(170), 1, "foot", "bob")]
    sides = [
        ("hits", "c", 30000, "view option state_ttl.c"), ("hits", "s", 120000, "view option state_ttl.s"),
        ("hinted_hits", "c", 45000, "hint OPTIONS('state.ttl.right')"), ("hinted_hits", "s", 60000, "session"),
    ]
    live = (header[2:], [(1, "side", "bob")])
    return [live, (header, published), (header, hinted), (["view", "input", "ttl_ms", "origin"], sorted(sides))]


def min_max_idle():
    header = ["op", "at", "session_id", "pages"]

    def said(*changes):
        return [(op, second(at), session, pages) for at, op, session, pages in changes]

    exact = said(
        (0, "+I", "a", 1), (0, "+I", "b", 1), (8, "-U", "a", 1), (8, "+U", "a", 2), (10, "-D", "b", 1), (18, "-D", "a", 2),
        (21, "+I", "a", 1), (31, "-D", "a", 1),
    )
    idle = said(
        (0, "+I", "a", 1), (0, "+I", "b", 1), (8, "-U", "a", 1), (8, "+U", "a", 2), (21, "-U", "a", 2), (21, "+U", "a", 3),
        (30, "-D", "b", 1), (51, "-D", "a", 3),
    )
    return [(header, exact), (header, idle)]


def count_restart():
    totals = ["forget", "keep", "retract"]
    header = ["op", "at", "session_id", "n"]
    both = [("+I", second(0), "a", 1), ("-U", second(4), "a", 1), ("+U", second(4), "a", 2)]
    forget = both + [("+I", second(20), "a", 1)]
    keep = both + [("-U", second(20), "a", 2), ("+U", second(20), "a", 1)]
    retract = both + [("-D", second(14), "a", 2), ("+I", second(20), "a", 1)]
    return [
        (["policy", "session_id", "n"], [("keep", "a", 2)]),
        (totals, [(2, 2, None)]), (totals, [(2 + 1, 1, 1)]),
        (header, forget), (header, keep), (header, retract),
    ]


def late_retraction():
    live = [("ann", 1, 4), ("bob", 1, 9)]
    published = [
        ("+I", second(0), "ann", 2, 11), ("+I", second(0), "bob", 1, 7),
        ("+I", second(11), "bob", 1, 9), ("+I", second(12), "ann", 1, 4),
    ]
    header = ["op", "at", "customer", "orders", "total"]
    return [(header[2:], live), (header, published), (["late_retractions", "expired", "live_scopes"], [(3, 2, 2)])]


def view_over_view():
    header = ["op", "at", "pages", "sessions"]
    first_second = [("+I", second(0), 1, 3), ("-U", second(1), 1, 3), ("+U", second(1), 1, 2), ("+I", second(1), 2, 1)]
    forget = first_second + [("-U", second(20), 1, 2), ("+U", second(20), 1, 3)]
    retract = first_second + [("-D", second(10), 1, 2), ("-D", second(11), 2, 1), ("+I", second(20), 1, 1)]
    return [(header[2:], [(1, 3), (2, 1)]), (header[2:], [(1, 1)]), (header, forget), (header, retract)]


if __name__ == "__main__":
    db = database()
    for make in [dau, clicks, top_n, grouping_sets]:
        write(make.__name__, *make(db))
    for make in [join, shared_view]:
        write(make.__name__, *make())
    for make in [two_memories, join_sides, min_max_idle, count_restart, late_retraction, view_over_view]:
        write(f"retention/{make.__name__}", *make())
