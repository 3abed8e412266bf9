// SPDX-License-Identifier: MIT
// The switch of the short way of plain calls, which docs/design.md describes: tests turn it off to
// compare both ways.

export const shortWay = { isOn: true };
