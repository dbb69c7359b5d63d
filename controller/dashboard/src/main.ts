// SPDX-License-Identifier: Apache-2.0
import "./app.css";
import "uplot/dist/uPlot.min.css";
import { mount } from "svelte";
import App from "./App.svelte";

const target = document.getElementById("page");
if (target === null) throw new Error("the page has no place for the dashboard");
mount(App, { target });
