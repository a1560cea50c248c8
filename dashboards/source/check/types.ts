// What a dashboard's JSON may contain, made of the types that Grafana publishes.

import type {
  AnnotationQuery,
  Dashboard,
  DataQuery,
  FieldConfig,
  MatcherConfig,
  Panel,
  RowPanel,
  VariableModel,
} from "@grafana/schema";
import type * as bargauge from "@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type * as heatmap from "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as timeline from "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type * as table from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as text from "@grafana/schema/dist/esm/raw/composable/text/panelcfg/x/TextPanelCfg_types.gen";
import type * as series from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

// JSON has the values of enumerations, and leaves out what has a default.
type Json<T> = T extends string
  ? `${T}`
  : T extends number
    ? `${T}` extends `${infer N extends number}` ? N : never
    : T extends object
      ? { [K in keyof T]?: Json<T[K]> }
      : T;

// What Grafana writes itself though its schema does not have it.
interface Variable extends VariableModel {
  definition: string;
}

// Prometheus' part, which is not in the schema.
interface Query extends DataQuery {
  expr: string;
  legendFormat: string;
  format?: "table" | "heatmap";
  instant?: boolean;
  range?: boolean;
}
interface Mark extends AnnotationQuery {
  expr: string;
  titleFormat: string;
  textFormat: string;
  tagKeys: string;
  step: string;
}

type Property<Custom> = {
  [K in keyof FieldConfig]-?: { id: K; value: Json<FieldConfig[K]> };
}[Exclude<keyof FieldConfig, "custom">] | {
  [K in keyof Custom & string]-?: { id: `custom.${K}`; value: Json<Custom[K]> };
}[keyof Custom & string];

type PanelOf<Type, Options, Custom = object> =
  Json<Omit<Panel, "type" | "options" | "fieldConfig" | "targets" | "transformations">> & {
    type: Type;
    options?: Json<Options>;
    targets?: Json<Query>[];
    transformations?: { id: string; options: unknown }[];
    fieldConfig?: {
      defaults: Json<Omit<FieldConfig, "custom">> & { custom?: Json<Custom> };
      overrides: { matcher: MatcherConfig; properties: Property<Custom>[] }[];
    };
  };

type AnyPanel =
  | PanelOf<"bargauge", bargauge.Options>
  | PanelOf<"heatmap", heatmap.Options, heatmap.FieldConfig>
  | PanelOf<"stat", stat.Options>
  | PanelOf<"state-timeline", timeline.Options, timeline.FieldConfig>
  | PanelOf<"table", table.Options, table.FieldConfig>
  | PanelOf<"text", text.Options>
  | PanelOf<"timeseries", series.Options, series.FieldConfig>;

type Row = Json<Omit<RowPanel, "panels" | "type">> & { type: "row"; panels: AnyPanel[] };

export type Board = Json<Omit<Dashboard, "panels" | "annotations" | "templating">> & {
  panels: (AnyPanel | Row)[];
  annotations: { list: Json<Mark>[] };
  templating: { list: Json<Variable>[] };
};
