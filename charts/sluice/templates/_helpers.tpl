{{- define "sluice.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: sluice
{{ include "sluice.selector" . }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- else -}}
{{ required "serviceAccount.name: name the account that is used when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "sluice.coordinatorUrl" -}}
https://{{ .Release.Name }}-coordinator.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end }}

{{- define "sluice.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "sluice.serviceAccountName" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* What the operator does where StreamsApps are. */ -}}
{{- define "sluice.rulesForApps" -}}
- apiGroups: [sluice.dev]
  resources: [streamsapps]
  verbs: [get, list, watch, patch]
- apiGroups: [sluice.dev]
  resources: [streamsapps/status]
  verbs: [patch]
# Asked for where OwnerReferencesPermissionEnforcement is on: pods, Service and budget block the end of their StreamsApp.
- apiGroups: [sluice.dev]
  resources: [streamsapps/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims]
  verbs: [list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, create, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, delete]
# Credentials of Kafka (spec.kafka.secretRef).
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end }}
