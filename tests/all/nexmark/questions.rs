//! What each Nexmark query asks, in SQLite's SQL over tables `person`, `auction` and `bid`, whose times are milliseconds.

/// The winning bid of each auction: the highest while it was open, and of equals the earlier.
const WINNING: &str = "WITH winning AS MATERIALIZED (
    SELECT a.*, b.bidder, b.price, b.date_time AS bid_time FROM auction a JOIN bid b ON b.rowid = (
        SELECT rowid FROM bid WHERE auction = a.id AND date_time BETWEEN a.date_time AND a.expires
        ORDER BY price DESC, date_time LIMIT 1))";

/// Counts of q15 and q16.
const REPORT: &str = "COUNT(*), SUM(price < 10000), SUM(price >= 10000 AND price < 1000000), SUM(price >= 1000000),
    COUNT(DISTINCT bidder), COUNT(DISTINCT CASE WHEN price < 10000 THEN bidder END),
    COUNT(DISTINCT CASE WHEN price >= 10000 AND price < 1000000 THEN bidder END),
    COUNT(DISTINCT CASE WHEN price >= 1000000 THEN bidder END),
    COUNT(DISTINCT auction), COUNT(DISTINCT CASE WHEN price < 10000 THEN auction END),
    COUNT(DISTINCT CASE WHEN price >= 10000 AND price < 1000000 THEN auction END),
    COUNT(DISTINCT CASE WHEN price >= 1000000 THEN auction END)";

/// The question of a query, by its number.
pub fn question(number: usize) -> String {
    let plain = match number {
        0 => "SELECT auction, bidder, price, date_time, extra FROM bid",
        1 => "SELECT auction, bidder, price * 0.908, date_time, extra FROM bid",
        2 => "SELECT auction, price FROM bid WHERE auction % 123 = 0",
        3 => {
            "SELECT name, city, state, a.id FROM person p, auction a
             WHERE a.seller = p.id AND category = 10 AND (state = 'or' OR state = 'id' OR state = 'ca')"
        }
        4 => {
            "SELECT category, AVG(price) FROM (
                SELECT category, (SELECT MAX(price) FROM bid WHERE auction = a.id AND date_time >= a.date_time AND date_time <= expires)
                    AS price
                FROM auction a)
             WHERE price IS NOT NULL GROUP BY category"
        }
        5 => {
            "WITH counts AS MATERIALIZED (
                SELECT (date_time / 2000 - ago) * 2000 AS start, auction, COUNT(*) AS bids
                FROM bid, (SELECT 0 AS ago UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) GROUP BY 1, 2)
             SELECT start, start + 10000, auction, bids FROM counts c
             WHERE bids = (SELECT MAX(bids) FROM counts WHERE start = c.start)"
        }
        6 => {
            return format!(
                "{WINNING} SELECT seller, bid_time, (SELECT AVG(price) FROM (
                    SELECT price FROM winning WHERE seller = w.seller AND bid_time <= w.bid_time ORDER BY bid_time DESC LIMIT 10))
                 FROM winning w"
            );
        }
        7 => {
            "SELECT auction, bidder, price, date_time, extra FROM bid
             WHERE (date_time / 10000, price) IN (SELECT date_time / 10000, MAX(price) FROM bid GROUP BY 1)"
        }
        8 => {
            "SELECT DISTINCT p.id, name, p.date_time / 10000 * 10000 FROM person p, auction a
             WHERE seller = p.id AND p.date_time / 10000 = a.date_time / 10000"
        }
        9 => return format!("{WINNING} SELECT id, item_name, seller, category, expires, bidder, price, bid_time FROM winning"),
        10 => {
            "SELECT auction, bidder, price, date_time, extra, date(date_time / 1000, 'unixepoch'),
                    strftime('%H:%M', date_time / 1000, 'unixepoch') FROM bid"
        }
        11 => {
            "SELECT bidder, COUNT(*), MIN(date_time), MAX(date_time) + 10000 FROM (
                SELECT bidder, date_time, SUM(begins) OVER (PARTITION BY bidder ORDER BY date_time) AS session FROM (
                    SELECT bidder, date_time,
                           date_time - LAG(date_time, 1, -10000) OVER (PARTITION BY bidder ORDER BY date_time) >= 10000 AS begins
                    FROM bid))
             GROUP BY bidder, session"
        }
        12 => {
            "SELECT bidder, COUNT(*), second / 10 * 10000, (second / 10 + 1) * 10000
             FROM (SELECT bidder, date_time / 1000 AS second FROM bid) GROUP BY bidder, second / 10"
        }
        13 => "SELECT auction, bidder, price, date_time, CAST(auction % 10000 + 1000 AS TEXT) FROM bid",
        14 => {
            "SELECT auction, bidder, price * 0.908,
                    CASE WHEN hour > 7 AND hour < 19 THEN 'dayTime' WHEN hour < 7 OR hour > 19 THEN 'nightTime' ELSE 'otherTime' END,
                    date_time, extra, LENGTH(extra) - LENGTH(REPLACE(extra, 'c', ''))
             FROM (SELECT *, date_time / 3600000 % 24 AS hour FROM bid)
             WHERE price * 908 > 1000000000 AND price * 908 < 50000000000"
        }
        15 => return format!("SELECT date(date_time / 1000, 'unixepoch') AS day, {REPORT} FROM bid GROUP BY day"),
        16 => {
            return format!(
                "SELECT channel, date(date_time / 1000, 'unixepoch') AS day, strftime('%H:%M', MAX(date_time) / 1000, 'unixepoch'), {REPORT}
                 FROM bid GROUP BY channel, day"
            );
        }
        17 => {
            "SELECT auction, date(date_time / 1000, 'unixepoch') AS day, COUNT(*), SUM(price < 10000),
                    SUM(price >= 10000 AND price < 1000000), SUM(price >= 1000000), MIN(price), MAX(price), AVG(price), SUM(price)
             FROM bid GROUP BY auction, day"
        }
        18 => {
            "SELECT auction, bidder, price, channel, url, date_time, extra FROM bid b
             WHERE NOT EXISTS (SELECT 1 FROM bid WHERE auction = b.auction AND bidder = b.bidder AND date_time > b.date_time)"
        }
        19 => {
            "SELECT auction, bidder, price, channel, url, date_time, extra, place FROM (
                SELECT *, 1 + (SELECT COUNT(*) FROM bid WHERE auction = b.auction AND
                               (price > b.price OR price = b.price AND date_time < b.date_time)) AS place
                FROM bid b)
             WHERE place <= 10"
        }
        20 => {
            "SELECT b.auction, bidder, price, channel, url, b.date_time, b.extra, item_name, description, initial_bid, reserve,
                    a.date_time, expires, seller, category, a.extra
             FROM auction a, bid b WHERE a.id = b.auction AND category = 10"
        }
        21 => {
            "SELECT * FROM (
                SELECT auction, bidder, price, channel, CASE channel
                       WHEN 'Apple' THEN '0' WHEN 'Google' THEN '1' WHEN 'Facebook' THEN '2' WHEN 'Baidu' THEN '3'
                       ELSE CASE WHEN url LIKE '%&channel!_id=%' ESCAPE '!' THEN SUBSTR(url, INSTR(url, '&channel_id=') + 12) END END AS id
                FROM bid)
             WHERE id IS NOT NULL"
        }
        22 => {
            "SELECT auction, bidder, price, channel, piece ->> 3, piece ->> 4, piece ->> 5
             FROM (SELECT *, '[\"' || REPLACE(url, '/', '\",\"') || '\"]' AS piece FROM bid)"
        }
        23 => {
            "SELECT b.auction, bidder, price, channel, url, b.date_time, b.extra, name, email_address, credit_card, city, state, p.extra,
                    a.id, item_name, description, initial_bid, reserve, a.date_time, expires, category, a.extra
             FROM bid b, person p, auction a WHERE p.id = bidder AND seller = bidder"
        }
        _ => panic!("there is no question {number}"),
    };
    plain.to_string()
}
