/** Times, dates, counts and days as types, for literal.ts. */

type Digit = "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9";
type Hour = `${"0" | "1"}${Digit}` | `2${"0" | "1" | "2" | "3"}`;
type Minute = `${"0" | "1" | "2" | "3" | "4" | "5"}${Digit}`;
type Day28 = `0${Exclude<Digit, "0">}` | `1${Digit}` | `2${Exclude<Digit, "9">}`;

/** The days of each month in dates: `01` to the last one. */
type DaysOf = {
  [Month in "01" | "03" | "05" | "07" | "08" | "10" | "12"]: Day28 | "29" | "30" | "31";
} & { [Month in "04" | "06" | "09" | "11"]: Day28 | "29" | "30" } & { "02": Day28 | "29" };

type ShortWeekday = "mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun";
type Weekday = ShortWeekday | `${"mon" | "tues" | "wednes" | "thurs" | "fri" | "satur" | "sun"}day`;

type Ordinal = "first" | "second" | "third" | "fourth" | "fifth" | "last";

type LongMonth = LongMonthName | "jan" | "mar" | "jul" | "aug" | "oct" | "dec";
type LongMonthName = "january" | "march" | "may" | "july" | "august" | "october" | "december";
type ShortMonth = "april" | "apr" | "june" | "jun" | "september" | "sep" | "november" | "nov";
type MonthName = LongMonth | ShortMonth | "february" | "feb";

/** Without a leading zero. */
type DayNumber = Exclude<Digit, "0"> | `${"1" | "2"}${Digit}` | "30" | "31";

/** The check of each item of a list with commas, by what the list is of. */
type ItemCheck<Text extends string> = {
  readonly time: TimeCheck<Text>;
  readonly date: DateCheck<Text>;
  readonly weekday: WeekdayCheck<Text>;
  readonly "month day": MonthDayCheck<Text>;
  readonly "year day": YearDayCheck<Text>;
};

/** One item, or several with commas between. */
export type ListCheck<
  Of extends keyof ItemCheck<string>,
  Text extends string,
> = Text extends `${infer Head},${infer Tail}`
  ? Or<ItemCheck<Head>[Of], ListCheck<Of, Tail>>
  : ItemCheck<Text>[Of];

/** The first problem: the compiler has evaluated both. */
export type Or<Problem, Next> = Problem extends string ? Problem : Next;

type TimeCheck<Text extends string> = Text extends `${Hour}:${Minute}`
  ? null
  : `"${Text}" is not a valid time (00:00 to 23:59)`;

export type DateCheck<Text extends string> =
  IsDate<Text> extends true ? null : `"${Text}" is not a valid date (YYYY-MM-DD)`;

type IsDate<Text extends string> =
  Text extends `${infer Y}-${infer M extends keyof DaysOf}-${infer D}`
    ? Y extends `${Digit}${Digit}${infer _Tens extends Digit}${infer _Ones extends Digit}`
      ? D extends DaysOf[M]
        ? true
        : false
      : false
    : false;

/** A date, or a date and a time with a lower-case `t` between them. */
export type MomentCheck<Text extends string> = Text extends `${infer Date}t${infer Time}`
  ? Or<DateCheck<Date>, TimeCheck<Time>>
  : DateCheck<Text>;

/** Up to eight digits: the parser knows the limit of each unit. */
export type CountCheck<Text extends string> = Text extends `${infer Lead}${infer More}`
  ? Lead extends Exclude<Digit, "0">
    ? IsUpToSevenDigits<More> extends true
      ? null
      : NoCount<Text>
    : NoCount<Text>
  : NoCount<Text>;

type UpToThreeDigits = "" | Digit | `${Digit}${Digit}` | `${Digit}${Digit}${Digit}`;

type IsUpToSevenDigits<Text extends string> = Text extends UpToThreeDigits
  ? true
  : Text extends `${Digit}${Digit}${Digit}${Digit}${infer More}`
    ? More extends UpToThreeDigits
      ? true
      : false
    : false;

type NoCount<Text extends string> = `"${Text}" is not a valid count (1 to 52596000)`;

type WeekdayCheck<Text extends string> = Text extends Weekday
  ? null
  : `"${Text}" is not a weekday (monday to sunday, or mon to sun)`;

type MonthDayCheck<Text extends string> = Text extends
  | DayNumber
  | "first day"
  | "last day"
  | `${Ordinal} ${Weekday | "weekday"}`
  ? null
  : `"${Text}" is not a day of a month (1 to 31, first day, last day, first monday, last friday or first weekday)`;

type YearDayCheck<Text extends string> = Text extends `${infer Month} ${infer Day}`
  ? Month extends MonthName
    ? Day extends DayOfNamed<Month>
      ? null
      : `"${Text}" is not a day of a year: ${Month} has no such day`
    : NoYearDay<Text>
  : NoYearDay<Text>;

type NoYearDay<Text extends string> =
  `"${Text}" is not a day of a year (a month and its day, such as march 1)`;

type DayOfNamed<Month extends MonthName> = Month extends LongMonth
  ? DayNumber
  : Month extends ShortMonth
    ? Exclude<DayNumber, "31">
    : Exclude<DayNumber, "30" | "31">;
