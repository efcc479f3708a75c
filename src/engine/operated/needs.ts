/** What a project writes that needs a feature, as data: `perdure doctor` looks for it in the sources. */

/** Functions, by the entry that exports them. */
export type Functions = readonly (readonly [from: string, name: string])[];

/** Something in the body of a class. */
type Written = {
  /** A member that it declares. */
  readonly member?: string;
  /** A method that it calls: of any object, or that of a property, as in `approvals.link`. */
  readonly method?: string;
  /** A field that is `true` in an argument of the method. */
  readonly flag?: string;
  /** Options, one of which an argument of the method has: `rate`, or `budget.usd`. */
  readonly options?: readonly string[];
  /** Functions, one of which it calls. */
  readonly calls?: Functions;
};

export type Need = {
  /** The entry that exports the feature. */
  readonly from: string;
  /** The host that has it by default. */
  readonly preset?: string;
  /** In the class: it fails then, at its start or at the call. */
  readonly written?: Written & { readonly why: string };
  /** The step that workflows of the class call: it fails at its call then. */
  readonly step?: Written & { readonly name: string };
  /** Functions whose arguments name the binding of the class, and one of these properties, if there are any. */
  readonly receiving?: {
    readonly by: Functions;
    readonly properties?: readonly string[];
    readonly why: string;
  };
  /** A function that the Worker calls, where a class uses the feature as `written` or `step` describe. */
  readonly served?: readonly [from: string, name: string];
  /** Functions of the project that serve bound classes. */
  readonly mounts?: Functions;
  /** A class of the entry that the Worker exports and binds, where the project imports the feature. */
  readonly object?: {
    readonly className: string;
    /** The name of its binding, unless the option of the feature has another one. */
    readonly binding: string;
    readonly option: string;
  };
};

/** By the name of the feature. */
export type Needs = Readonly<Record<string, Need>>;
