#!/usr/bin/env python3
"""Makes the data of this folder, the same every time: python3 generate.py

logins.csv  one row a login of an online game, day by day for five weeks: people come, most of them leave soon, some
            stay for ever; weekends are busier; many log in more than once a day.
clicks.csv  one row a page view of a shop, in order of time: sessions of one to a dozen pages over three days.
"""

import csv
import datetime
import math
import pathlib
import random

FOLDER = pathlib.Path(__file__).parent
FIRST_DAY = datetime.date(2026, 1, 5)  # a Monday
DAYS = 35


def write(name, header, rows):
    with open(FOLDER / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def logins(rng):
    users = []  # (user_id, the day of the first login, how strongly they are drawn back, platform)
    rows = []
    for day in range(DAYS):
        date = FIRST_DAY + datetime.timedelta(days=day)
        weekend = 1.35 if date.weekday() >= 5 else 1.0
        for _ in range(round(rng.gauss(18, 4) * weekend)):
            platform = rng.choices(["android", "ios", "web"], [5, 3, 2])[0]
            users.append((1001 + len(users), day, rng.betavariate(1.2, 2.2), platform))
        today = []
        for user_id, since, drawn, platform in users:
            age = day - since
            if age == 0 or rng.random() < drawn * weekend / math.sqrt(age):
                # a heavy tail of people who log in again and again
                logins_today = 1 + min(4, int(rng.expovariate(1.6)))
                # one in twenty logins is from a browser, whatever else the user has
                today += [(date, user_id, "web" if rng.random() < 0.05 else platform) for _ in range(logins_today)]
        rng.shuffle(today)
        rows += today
    write("logins.csv", ["t_date", "user_id", "platform"], rows)


def clicks(rng):
    pages = {"/": 30, "/search": 18, "/product/1": 14, "/product/2": 11, "/product/3": 7, "/cart": 9, "/help": 4, "/checkout": 5}
    start = datetime.datetime(2026, 2, 2)
    rows = []
    for session in range(1, 241):
        # mornings are quiet, evenings are not
        hour = min(23, max(0, rng.gauss(17, 4)))
        at = start + datetime.timedelta(days=rng.randrange(3), seconds=int(hour * 3600) + rng.randrange(3600))
        for _ in range(min(12, 1 + int(rng.expovariate(0.45)))):
            url = rng.choices(list(pages), list(pages.values()))[0]
            rows.append((at, f"s{session:03}", url))
            at += datetime.timedelta(seconds=rng.randrange(3, 180))
    rows.sort(key=lambda row: (row[0], row[1]))
    write("clicks.csv", ["at", "session_id", "url"], rows)


if __name__ == "__main__":
    logins(random.Random(20260105))
    clicks(random.Random(20260202))
