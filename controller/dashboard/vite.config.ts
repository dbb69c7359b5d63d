// SPDX-License-Identifier: Apache-2.0
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// Into the Python package, which serves it. Nothing is inlined: the page's policy allows no data
// and no inline code.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    outDir: "../cachepilot/dashboard",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: "es2022",
    modulePreload: { polyfill: false },
  },
});
