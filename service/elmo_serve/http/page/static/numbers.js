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

/** Return shares of 1 in whole percent that sum to 100: the largest fractions are rounded up. */
export function percentages(shares) {
  const down = shares.map((share) => Math.floor(100 * share));
  const rest = (i) => 100 * shares[i] - down[i];
  const missing = 100 - down.reduce((total, each) => total + each, 0);
  const up = shares.map((_, i) => i).sort((a, b) => rest(b) - rest(a)).slice(0, missing);
  return down.map((each, i) => each + Number(up.includes(i)));
}

/** Return a whole number with separators between thousands. */
export const whole = (value) => value.toLocaleString("en");

/** Return a number of bytes in words. */
export function bytes(count) {
  return count < 1e6 ? `${Math.max(1, Math.round(count / 1e3))} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

/** Return a count with its noun: `plural(1, "token")` is "1 token". */
export const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
