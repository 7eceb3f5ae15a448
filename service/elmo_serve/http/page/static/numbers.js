// Numbers as the page shows them.

/** Return a cosine with two digits, or as many as given, and a real minus sign. */
export function fixed(value, digits = 2) {
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** Return a number with four significant digits, as those of a vector. */
export function significant(value) {
  return String(Number(value.toPrecision(4))).replace("-", "−");
}

/** Return a share of 1 in percent, with one digit. */
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** Return a whole number with separators between thousands. */
export const whole = (value) => value.toLocaleString("en");

/** Return a count with its noun: `plural(1, "token")` is "1 token". */
export const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
