// SPDX-License-Identifier: Apache-2.0
// The pictures of jobs, in the order of their tabs.
import type { View } from '../frame/view';

export const views: View[] = [];
