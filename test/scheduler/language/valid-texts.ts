/** Valid schedules of every form, which the parser and the literal types must both take, each with its one spelling. */

export const VALID = {
  "every minute": "every 1 minute",
  "every hour": "every 1 hour",
  "every 1 minute": "every 1 minute",
  "every 15 minutes": "every 15 minutes",
  "every 2 hours": "every 2 hours",
  "every 876600 hours": "every 876600 hours",
  // A week and a year: Think takes any number.
  "every 10080 minutes": "every 10080 minutes",
  "every 52596000 minutes": "every 52596000 minutes",
  "every day at 09:00": "every day at 09:00",
  "every 1 day at 09:00": "every day at 09:00",
  "every day at 17:30, 09:00": "every day at 09:00,17:30",
  "every day at 00:00 , 23:59": "every day at 00:00,23:59",
  "every 3 days at 07:00": "every 3 days at 07:00",
  "every 366 days at 07:00": "every 366 days at 07:00",
  "every weekday at 09:00": "every weekday at 09:00",
  "every weekend at 10:00": "every weekend at 10:00",
  "every week on monday,wednesday at 09:00": "every week on monday,wednesday at 09:00",
  "every week on sun, mon at 09:00": "every week on monday,sunday at 09:00",
  "every 1 week on monday at 09:00": "every week on monday at 09:00",
  "every monday at 09:00": "every week on monday at 09:00",
  "every fri,tue at 09:00,10:00": "every week on tuesday,friday at 09:00,10:00",
  "every 2 weeks on monday at 09:00": "every 2 weeks on monday at 09:00",
  "every 52 weeks on thu at 09:00": "every 52 weeks on thursday at 09:00",
  "every month on 1,15 at 08:00": "every month on 1,15 at 08:00",
  "every month on 31 at 08:00": "every month on 31 at 08:00",
  "every month on first day at 08:00": "every month on 1 at 08:00",
  "every month on last day at 18:00": "every month on last day at 18:00",
  "every month on last day, 1 at 18:00": "every month on 1,last day at 18:00",
  "every month on first monday at 09:00": "every month on first monday at 09:00",
  "every month on fifth fri,second tuesday at 09:00":
    "every month on second tuesday,fifth friday at 09:00",
  "every month on first weekday at 09:00": "every month on first weekday at 09:00",
  "every month on last weekday,15 at 09:00": "every month on 15,last weekday at 09:00",
  "every month on last sunday at 09:00": "every month on last sunday at 09:00",
  "every quarter on first day at 00:00": "every quarter on 1 at 00:00",
  "every quarter on last day at 00:00": "every quarter on last day at 00:00",
  "every quarter on 15 at 00:00": "every quarter on 15 at 00:00",
  "every quarter on first monday at 08:00": "every quarter on first monday at 08:00",
  "every quarter on last friday at 17:00": "every quarter on last friday at 17:00",
  "every year on march 1 at 09:00": "every year on march 1 at 09:00",
  "every year on october 1,mar 1 at 09:00": "every year on march 1,october 1 at 09:00",
  "every year on feb 29 at 09:00": "every year on february 29 at 09:00",
  "every 15 minutes between 09:00 and 17:00 on weekdays":
    "every 15 minutes between 09:00 and 17:00 on weekdays",
  "every hour between 09:00 and 17:00": "every 1 hour between 09:00 and 17:00",
  "every 2 hours between 08:00 and 24:00 on weekends":
    "every 2 hours between 08:00 and 24:00 on weekends",
  "every 2 hours between 08:00 and 00:00": "every 2 hours between 08:00 and 24:00",
  "every 30 minutes between 22:00 and 06:00 on fri,mon":
    "every 30 minutes between 22:00 and 06:00 on monday,friday",
  "every minute between 09:00 and 09:01 on every day": "every 1 minute between 09:00 and 09:01",
  "every 24 hours between 00:00 and 24:00 on every day in UTC":
    "every 24 hours between 00:00 and 24:00",
  "cron 0 9 * * 1-5": "cron 0 9 * * 1-5",
  "cron */10 0 9 1,15 * mon": "cron */10 0 9 1,15 * MON",
  "cron 0 9 1, 15 * fri#l": "cron 0 9 1,15 * FRI#L",
  "cron @daily": "cron 0 0 * * *",
  "cron 0 9 * * 1-5 in UTC except 2026-12-25": "cron 0 9 * * 1-5 except 2026-12-25",
  "once at 2026-12-24T09:00": "once at 2026-12-24T09:00",
  "once at 2026-12-24 09:00": "once at 2026-12-24T09:00",
  "once at 2026-12-24T00:00 in Europe/Paris": "once at 2026-12-24T00:00",
  "every monday at 09:00 in Europe/Paris": "every week on monday at 09:00",
  "every 2 weeks on monday at 09:00 starting 2026-01-05":
    "every 2 weeks on monday at 09:00 starting 2026-01-05",
  "every day at 09:00 until 2026-12-31 starting 2026-01-05 in America/New_York":
    "every day at 09:00 starting 2026-01-05 until 2026-12-31",
  "every day at 09:00 until 2027-01-01T00:00": "every day at 09:00 until 2026-12-31",
  "every day at 09:00 starting 2026-01-05 10:30 until 2026-01-05T10:31":
    "every day at 09:00 starting 2026-01-05T10:30 until 2026-01-05T10:31",
  "every day at 09:00 except 2027-01-01, 2026-12-25 in Etc/GMT+5":
    "every day at 09:00 except 2026-12-25,2027-01-01",
  "every 15 minutes except 2026-12-25": "every 15 minutes except 2026-12-25",
  "every 15 minutes in UTC": "every 15 minutes",
  "every 15 minutes starting 2024-02-29T12:00 in UTC": "every 15 minutes starting 2024-02-29T12:00",
  "  EVERY   Day AT 09:00 IN europe/london ": "every day at 09:00",
} as const;

export type ValidText = keyof typeof VALID;

export const VALID_TEXTS = Object.keys(VALID) as ValidText[];
