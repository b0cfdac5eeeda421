// SPDX-License-Identifier: Apache-2.0
// The rules of the pages' look, shown by what they rule: #/design.
export function Design() {
  return <h1>Design</h1>;
}
