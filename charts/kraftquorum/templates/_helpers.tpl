{{- define "kraftquorum.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "kraftquorum.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "kraftquorum.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Never `kraftquorum`: by that name a quorum's Services, budget and policies find its pods. */}}
{{- define "kraftquorum.selectorLabels" -}}
app.kubernetes.io/name: kraftquorum-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "kraftquorum.labels" -}}
{{ include "kraftquorum.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: kraftquorum
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kraftquorum.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kraftquorum.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the account, since serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Called with the chart's root and an image's values. */}}
{{- define "kraftquorum.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "kraftquorum.leaseName" -}}
{{- include "kraftquorum.fullname" . -}}
{{- end -}}

{{/* The rules of rights.py, WATCHED; a test compares them. */}}
{{- define "kraftquorum.watchedRules" -}}
- apiGroups: [kraftquorum.io]
  resources: [kraftquorums]
  verbs: [get, list, watch, patch]
- apiGroups: [kraftquorum.io]
  resources: [kraftquorums/status]
  verbs: [patch]
- apiGroups: [kraftquorum.io]
  resources: [kraftquorums/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
{{- end -}}

{{/* `true` if the cluster assigns user ids; else empty. */}}
{{- define "kraftquorum.assignsUserIds" -}}
{{- $openshift := .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- if or (eq .Values.userIds "assigned") (and (eq .Values.userIds "auto") $openshift) -}}true{{- end -}}
{{- end -}}

{{/* Called with a list of `{name: …}`: the names, separated by commas. */}}
{{- define "kraftquorum.names" -}}
{{- $names := list -}}
{{- range . -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- join "," $names -}}
{{- end -}}

{{/* The security context of the operator's pod, as YAML; empty if there is none. */}}
{{- define "kraftquorum.podSecurityContext" -}}
{{- $context := default (dict) .Values.podSecurityContext -}}
{{- if include "kraftquorum.assignsUserIds" . -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- with $context -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* The rules of rights.py, CERT_MANAGER; a test compares them. A ClusterIssuer is in no namespace. */}}
{{- define "kraftquorum.certManagerRules" -}}
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, create, patch, delete]
- apiGroups: [cert-manager.io]
  resources: [certificates/status]
  verbs: [patch]
- apiGroups: [cert-manager.io]
  resources: [issuers]
  verbs: [get]
{{- if not .Values.watch.namespaces }}
- apiGroups: [cert-manager.io]
  resources: [clusterissuers]
  verbs: [get]
{{- end }}
{{- end -}}

{{/* The rules of rights.py, KAFKA_ADVICE; a test compares them. */}}
{{- define "kraftquorum.kafkaRules" -}}
- apiGroups: [kraftquorum.io]
  resources: [kafkaquorums]
  verbs: [list, watch]
- apiGroups: [kraftquorum.io]
  resources: [kafkaquorums/status]
  verbs: [patch]
{{- end -}}

{{/* The rules of rights.py, METRICS; a test compares them. */}}
{{- define "kraftquorum.metricsRules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/* What a schema cannot say in words: variables and labels that other values or the chart set. */}}
{{- define "kraftquorum.validate" -}}
{{- $owners := dict
  "KRAFTQUORUM_IDENTITY" "the name of the pod"
  "KRAFTQUORUM_NAMESPACE" "watch.namespaces"
  "KRAFTQUORUM_CLUSTER_DOMAIN" "clusterDomain"
  "KRAFTQUORUM_NODE_IMAGE" "nodeImage"
  "KRAFTQUORUM_NODE_IMAGE_PULL_SECRETS" "nodeImage.pullSecrets"
  "KRAFTQUORUM_NODE_USER" "userIds"
  "KRAFTQUORUM_NODE_METRICS_FROM" "networkPolicy.nodes.metricsFrom"
  "KRAFTQUORUM_POD_NAMESPACE" "the release's namespace"
  "KRAFTQUORUM_LEASE_NAMESPACE" "the release's namespace"
  "KRAFTQUORUM_LEASE_NAME" "fullnameOverride"
  "KRAFTQUORUM_LEASE_DURATION_S" "lease.durationSeconds"
  "KRAFTQUORUM_KAFKA_ADVICE" "kafka.advise"
  "KRAFTQUORUM_METRICS_HOST" "metrics.access"
  "KRAFTQUORUM_METRICS_ACCESS" "metrics.access"
  "KRAFTQUORUM_METRICS_CERTIFICATE_FILE" "metrics.certificateSecret"
  "KRAFTQUORUM_METRICS_KEY_FILE" "metrics.certificateSecret"
  "KRAFTQUORUM_METRICS_PORT" "ports.metrics"
  "KRAFTQUORUM_PAGE_HOST" "statusPage.access"
  "KRAFTQUORUM_PAGE_PORT" "ports.page"
  "KRAFTQUORUM_LIVENESS_HOST" "the address of the pod"
  "KRAFTQUORUM_LIVENESS_PORT" "ports.health"
  "KRAFTQUORUM_LOG_FORMAT" "log.format"
  "KRAFTQUORUM_LOG_LEVEL" "log.level" -}}
{{- range $name, $_ := .Values.settings -}}
{{- with get $owners $name -}}
{{- fail (printf "settings.%s: this variable is set by %s" $name .) -}}
{{- end -}}
{{- end -}}
{{- $set := dict "POD_IP" "the chart" -}}
{{- range $name, $_ := .Values.settings -}}
{{- $_ := set $set $name "settings" -}}
{{- end -}}
{{- range $one := .Values.extraEnv -}}
{{- with get (merge (dict) $owners $set) $one.name -}}
{{- fail (printf "extraEnv: %s is set already, by %s" $one.name .) -}}
{{- end -}}
{{- $_ := set $set $one.name "extraEnv" -}}
{{- end -}}
{{- $fullname := include "kraftquorum.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $fullname) -}}
{{- fail (printf "fullnameOverride: set a name that begins with a letter and has no dot; %s, made of the release's name, names no Service" $fullname) -}}
{{- end -}}
{{- range $name, $_ := fromYaml (include "kraftquorum.selectorLabels" .) -}}
{{- if or (hasKey $.Values.podLabels $name) (hasKey $.Values.commonLabels $name) -}}
{{- fail (printf "podLabels, commonLabels: %s is how the chart finds its pods; take another label" $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.monitoring.serviceMonitor.enabled (eq .Values.metrics.access "local") -}}
{{- fail "monitoring.serviceMonitor.enabled: with metrics.access local, no Prometheus reaches the metrics" -}}
{{- end -}}
{{- if and .Values.metrics.readers (ne .Values.metrics.access "authenticated") -}}
{{- fail "metrics.readers: only metrics.access authenticated checks who reads" -}}
{{- end -}}
{{- if and .Values.metrics.certificateSecret (eq .Values.metrics.access "local") -}}
{{- fail "metrics.certificateSecret: metrics.access local serves plain HTTP on localhost" -}}
{{- end -}}
{{- if eq (int .Values.ports.metrics) (int .Values.ports.health) -}}
{{- fail "ports.metrics and ports.health: two ports are needed" -}}
{{- end -}}
{{- if and .Values.statusPage.enabled (has (int .Values.ports.page) (list (int .Values.ports.metrics) (int .Values.ports.health))) -}}
{{- fail "ports.page: a port of its own is needed" -}}
{{- end -}}
{{- end -}}
